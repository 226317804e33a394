package httpapi

import (
	"testing"
	"time"
)

// ProofDeadline makes the wait for a proof short.
func ProofDeadline(t *testing.T) {
	before := proofDeadline
	proofDeadline = 50 * time.Millisecond
	t.Cleanup(func() { proofDeadline = before })
}
