package core

// SentFile begins what a specification says of a file that came with a request and lies in the artifacts: the sum of
// its bytes follows. Else the specification has the address of an object, or, before it is sent, a path.
const SentFile = "sha256:"

// Files is what the caller's files hold that a specification names by their sums.
type Files struct {
	Probes  []byte `json:"probes,omitempty"`
	Aliases []byte `json:"aliases,omitempty"`
}
