package core

// Difference is what changed from one generation to another.
type Difference struct {
	Index     string             `json:"index"`
	From      DifferenceSide     `json:"from"`
	To        DifferenceSide     `json:"to"`
	Documents DocumentDifference `json:"documents"`
	Chunks    ChunkDifference    `json:"chunks"`
	Classes   ClassDifference    `json:"classes"`

	// Questions are those whose first five chunks differ, of so many that were asked. Nil: none were.
	Questions *QuestionDifference `json:"questions,omitempty"`
}

// DifferenceSide is one of the two generations.
type DifferenceSide struct {
	Index      string  `json:"index,omitempty"` // that serves it, where it was named by that: a branch, or its base
	Generation string  `json:"generation"`
	State      string  `json:"state"`
	Counts     Counts  `json:"counts"`
	Tokens     Tokens  `json:"tokens"` // paid for by the run that made it
	Cost       float64 `json:"cost"`
}

// DocumentDifference counts documents by what happened to them. One that moved is listed under its new key, and counts
// neither as added nor as removed.
type DocumentDifference struct {
	Added   int64    `json:"added"`
	Changed int64    `json:"changed" doc:"documents with other content"`
	Moved   int64    `json:"moved"`
	Removed int64    `json:"removed"`
	Listed  []Change `json:"listed" doc:"the first of each kind, in the order of keys"`
}

// ChunkDifference counts chunks.
type ChunkDifference struct {
	Added   int64 `json:"added"`
	Removed int64 `json:"removed"`
}

// ClassDifference counts classes.
type ClassDifference struct {
	Born    int64    `json:"born" doc:"entities that are new"`
	Changed int64    `json:"changed" doc:"in name, description or passages"`
	Died    int64    `json:"died" doc:"entities that are gone"`
	Listed  []Change `json:"listed" doc:"the first of each kind, in the order of ids"`
}

// Change is one thing that changed.
type Change struct {
	Change string `json:"change" doc:"added, changed, moved, removed, hidden; entities: born, changed, died, left, came"`
	Object string `json:"object"`         // key of a document, name of a class
	ID     string `json:"id,omitempty"`   // of a class
	From   string `json:"from,omitempty"` // key that a moved document had
}

// QuestionDifference is what became of the first five chunks of questions.
type QuestionDifference struct {
	Asked   int              `json:"asked"`
	Changed []QuestionChange `json:"changed"`
}

// QuestionChange is a question whose first five chunks are others, or in another order.
type QuestionChange struct {
	Question string   `json:"question"`
	Before   []string `json:"before"` // documents of its chunks, best first
	After    []string `json:"after"`
}
