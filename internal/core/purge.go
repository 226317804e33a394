package core

import "time"

// States of a purge.
const (
	PurgePending = "pending" // something of it may still be stored: the next run of the index goes on with it
	PurgeDone    = "done"    // everything that it had to remove was removed
)

// Purge is the wish that documents leave an index with everything that was made from them. It names them by digests
// alone, as it outlives them: a night leaves out what a purge names, unless it may return.
type Purge struct {
	ID        string    `json:"id"` // <time>-<random>, rising with time
	At        time.Time `json:"at"`
	Index     string    `json:"index"`
	Documents []Digest  `json:"documents"`           // of their keys; see PurgedKey
	Attached  []Digest  `json:"attached,omitempty"`  // those of them that are attached to others of them
	Return    bool      `json:"return,omitempty"`    // once it is done, the corpus may bring them back
	State     string    `json:"state"`               // one of those above
	Run       string    `json:"run,omitempty"`       // generation of the run that went on with it last
	Ended     time.Time `json:"ended,omitzero"`      // when it was done
	Left      []string  `json:"left,omitempty"`      // what is still to be done, in words
	Gone      Purged    `json:"gone,omitzero"`       // what was removed so far
	Shared    int64     `json:"shared,omitempty"`    // ledger entries that stay, as other documents have the same
	Forgotten []string  `json:"forgotten,omitempty"` // tasks of the ledger whose entries all went, of every index
	Operation string    `json:"operation,omitempty"` // in the audit trail
}

// PurgedKey returns what a purge knows a document by.
func PurgedKey(index, document string) Digest { return Sum("purged/1", index, document) }

// Purged counts what a purge removed.
type Purged struct {
	Generations int64 `json:"generations"` // that held a document, and were dropped
	Segments    int64 `json:"segments"`    // files and collections
	Records     int64 `json:"records"`     // of classes
	Rows        int64 `json:"rows"`        // of vectors
	Ledger      int64 `json:"ledger"`      // paid results
	Letters     int64 `json:"letters"`     // dead letters, and problems of reports

}

// PurgePlan says what a purge would do. It changes nothing.
type PurgePlan struct {
	Index       string            `json:"index"`
	Documents   []PurgeDocument   `json:"documents"`
	Current     string            `json:"current"`           // generation that is served
	Drops       []PurgeGeneration `json:"drops"`             // generations that hold one of them, and go
	Classes     int64             `json:"classes"`           // that name them: their texts are made again, at most so many
	Shortenings int64             `json:"shortenings"`       // paid ones of these texts, in all generations
	Entries     map[string]int64  `json:"entries"`           // of the ledger, by task: those of other documents too stay
	Pending     []string          `json:"pending,omitempty"` // purges of one of them that are not done
	Probes      []string          `json:"probes,omitempty"`  // objects with questions that expect one of them: they stay
}

// PurgeDocument is a document of a PurgePlan.
type PurgeDocument struct {
	Key    string `json:"key"`
	Digest Digest `json:"digest"` // by which the purge and the audit trail know it
	Known  bool   `json:"known"`  // a generation that is kept has it, or had it
	Chunks int64  `json:"chunks"` // in all generations

	Attached bool `json:"attached,omitempty"` // it was not named, but what it is attached to
}

// PurgeGeneration is a generation that holds a purged document.
type PurgeGeneration struct {
	Generation string   `json:"generation"`
	State      string   `json:"state"`
	Tags       []string `json:"tags,omitempty"`
	Current    bool     `json:"current,omitempty"` // it is served until one without the document takes its place
}
