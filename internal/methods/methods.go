// Package methods lists what this program can do beside what every index has: enrichments, and methods that need one.
// The rooms above know them by name alone.
package methods

import (
	"github.com/unweaver/unweaver/internal/methods/aliases/pairstage"
	"github.com/unweaver/unweaver/internal/methods/apr/aprmethod"
	"github.com/unweaver/unweaver/internal/methods/apr/factstage"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/methods/gem/gemmethod"
	"github.com/unweaver/unweaver/internal/methods/gem/gemstage"
	"github.com/unweaver/unweaver/internal/retrieve"
)

var registry = func() *retrieve.Registry {
	made, err := retrieve.NewRegistry(append(retrieve.ListPlainMethods(), gemmethod.Method{}, aprmethod.Method{})...)
	if err != nil {
		panic(err) // a mistake in the line above, which every test meets
	}
	return made
}()

// Registry returns the methods of this program in the order in which they are shown.
func Registry() *retrieve.Registry { return registry }

// Enrichments are those of this program, as indexes.*.enrich names them.
var Enrichments = map[string]enrich.Enrichment{
	factstage.Enrichment.Name: factstage.Enrichment,
	gemstage.Enrichment.Name:  gemstage.Enrichment,
	pairstage.Enrichment.Name: pairstage.Enrichment,
}
