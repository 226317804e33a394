package core

// AliasList says which names are mapped in a generation.
type AliasList struct {
	Index      string         `json:"index"`
	Generation string         `json:"generation"`
	Aliases    []MappedName   `json:"aliases"`
	Decided    []SuggestedOne `json:"decided,omitempty"` // by a model that the build asked
	Suggested  []SuggestedOne `json:"suggested,omitempty"`
	Searched   AliasSearch    `json:"searched,omitzero"` // of suggestions alone
}

// MappedName is a name, by its key, and the one that stands for it.
type MappedName struct {
	Name      string `json:"name"`
	StandsFor string `json:"stands_for"` // the key of the name that the class has
}

// SuggestedOne is a pair of names that may be one. The second is mentioned more often.
type SuggestedOne struct {
	Name    string  `json:"name"`
	Of      string  `json:"of"`
	Cosine  float64 `json:"cosine"`            // of the vectors of the two classes
	Spelled bool    `json:"spelled_alike"`     // they have the same letters and digits
	Verdict string  `json:"verdict,omitempty"` // of a model that a build asked: same | different; empty: none was asked
	Why     string  `json:"why,omitempty"`     // its words
	Refused string  `json:"refused,omitempty"` // why it is not suggested; only listed where it was asked for
}

// AliasSearch says what suggestions were looked for in.
type AliasSearch struct {
	Classes int            `json:"classes"` // that were compared, the most mentioned first
	Of      int64          `json:"of"`      // that there are
	Pairs   int            `json:"pairs"`   // near enough, or spelled much the same
	Refused map[string]int `json:"refused,omitempty"`
	Seconds float64        `json:"seconds"`
}
