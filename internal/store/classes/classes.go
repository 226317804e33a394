// Package classes names the stores of one technology that hold class records and coordinate workers at once.
package classes

import (
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/records"
)

// Store is both ports over one server or one folder.
type Store interface {
	records.Store
	coordination.Store
}
