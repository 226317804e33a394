package app

import "github.com/unweaver/unweaver/internal/config"

// Place says where stores are, for tests without servers.
func (s *Stores) Place(places config.Stores) { s.places = places }
