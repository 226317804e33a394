package core

import "time"

// States of branches.
const (
	BranchOpen    = "open"
	BranchDeleted = "deleted" // its generations are collected by runs of its base; the name stays its base's
)

// Branch is a second line of generations over the ledger and the segments of an index, its base. It lies beside the
// base's pointer, where collectors find it: what it names counts as named by an index that stays.
type Branch struct {
	Name       string    `json:"name"`
	Base       string    `json:"base"`
	Generation string    `json:"generation"` // of the base, which it began with
	Manifest   string    `json:"manifest"`   // of that generation
	Seq        int64     `json:"seq"`
	Epoch      int64     `json:"epoch"` // of its first pointer; of one that was deleted of its last
	At         time.Time `json:"at"`
	Operator
	Set   map[string]string `json:"set,omitempty"` // settings in which it differs, by their paths below the index
	State string            `json:"state"`

	// What lists add.
	Current string `json:"current,omitempty"`   // generation that it serves
	Own     bool   `json:"own"`                 // that is the branch's, not the base's that it began with
	BaseIs  string `json:"base_is,omitempty"`   // generation that the base serves
	Op      string `json:"operation,omitempty"` // id in the audit trail of what made it
}

// Rebase is what a branch's night found the base serving when it was planned.
type Rebase struct {
	Generation string `json:"generation"` // of the branch's run
	Base       string `json:"base"`       // generation of the base
	Release    int64  `json:"release"`    // epoch of the base's pointer
}

// Overlay is what the store says of the configuration of an index, over the file. Of a branch it is what the branch was
// made with; of any other index what its served generation was made with, which a branch brought along when it was
// promoted: so it is in force from the flip of the pointer on, and a rollback takes it back. A setting leaves it with
// the first generation that is made while the file says the same.
type Overlay struct {
	Index string            `json:"index"`
	Base  string            `json:"base,omitempty"` // whose configuration it goes by; empty: the index's
	Set   map[string]string `json:"set,omitempty"`  // by paths below the index
}
