package core

// Deletion is what deleting an index takes away, or took.
type Deletion struct {
	Index       string   `json:"index"`
	DryRun      bool     `json:"dry_run"`
	Begun       bool     `json:"begun,omitempty"`  // an earlier deletion did not end; this one goes on with it
	Serves      string   `json:"serves,omitempty"` // generation that queries see
	Generations int      `json:"generations"`
	Tags        []string `json:"tags,omitempty"`
	Branches    []string `json:"branches,omitempty"` // that were deleted before, and what is left of which goes too
	Purges      int      `json:"purges,omitempty"`   // what they name is read again once the name is built again
	Objects     int64    `json:"objects"`            // of the artifact store
	Bytes       int64    `json:"bytes"`
	Collections []string `json:"collections"` // of vectors
	Records     int64    `json:"records"`     // of classes
	Schedule    bool     `json:"schedule"`    // it has a schedule, which goes too
	Reading     bool     `json:"reading,omitempty"`
	Operation   string   `json:"operation,omitempty"` // id in the audit trail
}
