// Package coordination is the port to what the workers of an installation share while they run: claims, shared limits,
// state, accounts and control of builds, leases of readers, the mirror of the pointer, who lives, and what callers use
// in a day. Nothing here is data: all of it may be lost with the processes it is about, at no cost but time and the
// quotas of a day. Its contract is proven by coordinationtest.
package coordination

import (
	"context"
	"strings"
	"time"
)

// Reserved is the answer to a reservation: go on, or wait and ask again.
type Reserved struct{ Wait time.Duration }

// Claims are shared by the workers of an installation. After a loss, claims are taken again and the rate windows start
// empty.
type Claims interface {
	// Claim takes a key for an owner until ttl has passed; a second claim by the same owner renews it. It reports
	// whether the owner has it now.
	Claim(ctx context.Context, key, owner string, ttl time.Duration) (bool, error)
	// Release gives a claim back; releasing what one does not hold does nothing.
	Release(ctx context.Context, key, owner string) error
	// ClaimAll is Claim for many keys in one journey: it says for each whether the owner has it now.
	ClaimAll(ctx context.Context, keys []string, owner string, ttl time.Duration) ([]bool, error)
	// ReleaseAll is Release for many keys in one journey.
	ReleaseAll(ctx context.Context, keys []string, owner string) error
	// Reserve asks for n requests and tokens of an endpoint under per-minute limits (0 = none).
	Reserve(ctx context.Context, endpoint string, requests, tokens, perMinute, tokensPerMinute int) (Reserved, error)
	// Settle corrects a reservation's tokens by delta once usage is known.
	Settle(ctx context.Context, endpoint string, delta int) error
}

// Runs holds the state of builds. Values are small and opaque here.
type Runs interface {
	// SetProgress writes absolute progress of one batch attempt: writing it twice changes nothing.
	SetProgress(ctx context.Context, run, field string, value []byte) error
	ReadProgress(ctx context.Context, run string) (map[string][]byte, error)
	// SetProblem writes what keeps a run from going on, under a key of its own; nil is its end.
	SetProblem(ctx context.Context, run, key string, value []byte) error
	ReadProblems(ctx context.Context, run string) (map[string][]byte, error)
	// ExchangeAccount writes what one worker process has spent on a run, as absolute totals: writing it twice changes
	// nothing, and the sum over all accounts is what the run has spent. It outlives the process. In the same journey the
	// worker learns whether it may go on. all holds what was just written.
	ExchangeAccount(
		ctx context.Context, run, worker string, value []byte,
	) (control []byte, all map[string][]byte, err error)
	ReadAccounts(ctx context.Context, run string) (map[string][]byte, error)
	SetState(ctx context.Context, run string, value []byte) error
	ReadState(ctx context.Context, run string) ([]byte, error) // nil when unknown
	// SetControl writes what activities of a run poll (pause, concurrency, budget).
	SetControl(ctx context.Context, run string, value []byte) error
	ReadControl(ctx context.Context, run string) ([]byte, error)
	// ForgetRun drops progress, problems, accounts and control, and keeps the state.
	ForgetRun(ctx context.Context, run string) error
	// ForgetIndex drops everything of an index: its runs with their states, its readers' leases and its mirror.
	ForgetIndex(ctx context.Context, index string) error
}

// RunOf reports whether a name under which Runs keeps something is of an index: index/generation, or kind:index, which
// is the newest run of a kind.
func RunOf(name, index string) bool {
	_, of, newest := strings.Cut(name, ":")
	return strings.HasPrefix(name, index+"/") || newest && of == index
}

// Held is a generation that a reader has open.
type Held struct{ Index, Generation string }

// Readers holds leases on generations that queries still use, and the mirror of the pointer.
type Readers interface {
	// Lease leases everything that one reader holds, in one journey. After an error some may be leased.
	Lease(ctx context.Context, held []Held, reader string, ttl time.Duration) error
	ListLeased(ctx context.Context, index string) (map[string]bool, error) // generations with a live lease
	// Mirror records the pointer of an index: the last write wins. It is a hint: who reads another pointer than the one
	// it knows asks the artifacts.
	Mirror(ctx context.Context, index string, pointer []byte) error
	ReadMirror(ctx context.Context, index string) ([]byte, error)
	// ReadMirrors gives the mirrored pointers of all indexes, and a version that changes whenever one does. Where the
	// version is the one that the caller knows it gives none of them (nil), in one small request.
	ReadMirrors(ctx context.Context, known string) (version string, pointers map[string][]byte, err error)
}

// Store is the port.
type Store interface {
	Claims
	Runs
	Readers
	Fleet
	Quotas
	Close() error
}
