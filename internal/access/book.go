package access

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Object is where the keys lie in the artifact store. No index can have that name.
const Object = "_access/keys.json"

// version of the object; a newer one is refused.
const version = 1

type stored struct {
	Version int   `json:"version"`
	Keys    []Key `json:"keys"`
}

// Request asks for a new key.
type Request struct {
	Name    string        `json:"name"`
	Scope   Scope         `json:"scope"`
	Index   string        `json:"index"`   // empty: *
	Expires time.Duration `json:"expires"` // from now on; 0: never
	Limits  Limits        `json:"limits"`
	Labels  []string      `json:"labels,omitempty"` // see Key
}

// Made is a new key with its text, which cannot be given again.
type Made struct {
	Key  Key    `json:"key"`
	Text string `json:"text"`
	// Warning says that no index goes by the name that the key is for, which is allowed: it may be built later.
	Warning string `json:"warning,omitempty"`
}

// Keeper makes and ends keys; Book.Keeper returns one. Errors are faults.
type Keeper = *Calls

// Calls are the methods of a Keeper. A tag names a method where it is carried, and its arguments where it has not one
// request.
type Calls struct {
	CreateKey func(ctx context.Context, request Request) (Made, error) `call:"keys/create"`
	// ListKeys lists all keys, also those that have ended, the oldest first.
	ListKeys func(ctx context.Context) ([]Key, error) `call:"keys/list"`
	// RotateKey makes a key like another, which ends after overlap.
	RotateKey func(ctx context.Context, id string, overlap time.Duration) (Made, error) `call:"keys/rotate id overlap"`
	// RevokeKey ends a key at once; one that has ended is no error.
	RevokeKey func(ctx context.Context, id string) (Key, error) `call:"keys/revoke id"`
}

// Book keeps keys in an artifact store. Who can write there can make keys.
type Book struct {
	Store blob.Store
	Now   func() time.Time // nil: time.Now
}

// Keeper returns the keeper of a book.
func (b Book) Keeper() Keeper { return &Calls{b.CreateKey, b.ListKeys, b.RotateKey, b.RevokeKey} }

func (b Book) currentTime() time.Time {
	if b.Now != nil {
		return b.Now().UTC()
	}
	return time.Now().UTC()
}

// readKeys gives what is stored; nothing yet is no error.
func readKeys(ctx context.Context, store blob.Store) (stored, string, error) {
	out := stored{Version: version}
	info, err := blob.ReadJSON(ctx, store, Object, &out)
	switch {
	case fault.Is(err, fault.NotFound):
		return stored{Version: version}, "", nil
	case err != nil:
		return stored{}, "", err
	case out.Version != version:
		return stored{}, "", fault.FormatUnknown.At("read", store.Location(Object)).
			Because("a newer program version wrote it").
			Advise("use the newer program version")
	}
	return out, info.ETag, nil
}

// changeKeys applies f to what is stored until no other process has changed it meanwhile.
func (b Book) changeKeys(ctx context.Context, f func(*stored) error) error {
	read := func(ctx context.Context) (stored, string, error) { return readKeys(ctx, b.Store) }
	return blob.ChangeJSON(ctx, b.Store, Object, read, f)
}

// indexPattern is what a pattern over names of indexes is made of: one with another letter matches none.
var indexPattern = regexp.MustCompile(`^[a-z0-9^*?\[\]-]{1,200}$`)

// isHidden reports whether a terminal obeys or does not show a character.
func isHidden(r rune) bool { return !unicode.IsPrint(r) }

// Validate refuses what makes no sense, with fault.Usage, and fills in what is left out.
func (r *Request) Validate() error {
	bad := func(object, why string) error { return fault.Usage.At("make a key with", object).Because(why) }
	if r.Index == "" {
		r.Index = "*"
	}
	if strings.Contains(r.Index, ",") {
		return bad("index "+fault.QuoteName(r.Index), "a key is for one name or one pattern: create a key for each")
	}
	if _, err := path.Match(r.Index, ""); err != nil || !indexPattern.MatchString(r.Index) {
		return bad("index "+fault.QuoteName(r.Index), "want the name of an index, or a pattern with * ? [ ]")
	}
	if !slices.Contains(Scopes, r.Scope) {
		return bad("scope "+string(r.Scope), "use query, operate or admin")
	}
	if len(r.Name) > 200 {
		return bad("name", fmt.Sprintf("want at most 200 bytes, got %d", len(r.Name)))
	}
	if !utf8.ValidString(r.Name) || strings.ContainsFunc(r.Name, isHidden) {
		return bad("name "+fault.QuoteName(r.Name), "want visible characters")
	}
	if r.Expires < 0 {
		return bad("expires "+r.Expires.String(), "want a time in the future, or 0: valid until revoked")
	}
	r.Labels = slices.Compact(slices.Sorted(slices.Values(r.Labels)))
	for _, label := range r.Labels {
		if err := core.CheckLabel(label); err != nil && label != core.AnyLabel {
			return bad("labels", err.Error())
		}
	}
	if len(r.Labels) > maxLabels {
		return bad("labels", fmt.Sprintf("want at most %d, got %d", maxLabels, len(r.Labels)))
	}
	for _, limit := range []float64{
		r.Limits.RequestsPerSecond, float64(r.Limits.Burst), float64(r.Limits.Concurrency), r.Limits.AnswersPerMinute,
		r.Limits.MoneyPerDay,
	} {
		if !(limit >= 0 && limit <= 1e9) {
			return bad("limits", "want numbers from 0 (the configured limit) to one billion")
		}
	}
	return nil
}

// maxLabels is how many labels a key has, at most.
const maxLabels = 1_000

// addKey makes a key with an id that is free.
func (s *stored) addKey(key Key) Made {
	taken := func(id string) bool {
		return slices.ContainsFunc(s.Keys, func(other Key) bool { return other.ID == id })
	}
	for key.ID = drawLetters(idLength); taken(key.ID); key.ID = drawLetters(idLength) {
	}
	text := drawKey(key.ID)
	key.Digest = digestOf(text)
	s.Keys = append(s.Keys, key)
	return Made{Key: key.toPublic(), Text: text}
}

// findKey returns the key of an id.
func (s *stored) findKey(id string) (*Key, error) {
	for i := range s.Keys {
		if s.Keys[i].ID == id {
			return &s.Keys[i], nil
		}
	}
	if WellFormed(id) { // never repeated: it is a secret
		return nil, fault.NotFound.At("find key", idOf(id)).Because("this looks like a key: use its id")
	}
	return nil, fault.NotFound.At("find key", id).Advise("list the keys with: unweaver keys list")
}

// CreateKey implements Keeper.
func (b Book) CreateKey(ctx context.Context, request Request) (made Made, err error) {
	if err := request.Validate(); err != nil {
		return Made{}, err
	}
	key := Key{
		Name: request.Name, Scope: request.Scope, Index: request.Index, Created: b.currentTime(), Limits: request.Limits,
		Labels: request.Labels,
	}
	if request.Expires > 0 {
		at := key.Created.Add(request.Expires)
		key.Expires = &at
	}
	err = b.changeKeys(ctx, func(keys *stored) error { made = keys.addKey(key); return nil })
	if err != nil {
		return Made{}, err
	}
	folders, err := b.Store.ListFolders(ctx)
	if err == nil && made.Key.Index != "*" && !slices.ContainsFunc(folders, made.Key.Grant().Covers) {
		made.Warning = "there is no index " + made.Key.Index + " yet"
	}
	return made, nil
}

// ListKeys implements Keeper.
func (b Book) ListKeys(ctx context.Context) ([]Key, error) {
	keys, _, err := readKeys(ctx, b.Store)
	out := make([]Key, 0, len(keys.Keys))
	for _, key := range keys.Keys {
		out = append(out, key.toPublic())
	}
	return out, err
}

// RotateKey implements Keeper.
func (b Book) RotateKey(ctx context.Context, id string, overlap time.Duration) (made Made, err error) {
	if overlap < 0 {
		return Made{}, fault.Usage.At("rotate key", id).Because("the overlap must not be negative")
	}
	err = b.changeKeys(ctx, func(keys *stored) error {
		old, err := keys.findKey(id)
		if err != nil {
			return err
		}
		now := b.currentTime()
		if state := old.StateAt(now); state != "valid" {
			return fault.Usage.At("rotate key", id).Because("it is " + state).Advise("create a new key: unweaver keys create")
		}
		next := *old
		next.Created = now
		if old.Expires != nil { // as long as the old one was made for
			at := now.Add(old.Expires.Sub(old.Created))
			next.Expires = &at
		}
		end := now.Add(overlap)
		if overlap == 0 {
			old.Revoked = &end
		} else if old.Expires == nil || end.Before(*old.Expires) {
			old.Expires = &end
		}
		made = keys.addKey(next)
		return nil
	})
	if err != nil {
		return Made{}, err
	}
	return made, nil
}

// RevokeKey implements Keeper.
func (b Book) RevokeKey(ctx context.Context, id string) (revoked Key, err error) {
	err = b.changeKeys(ctx, func(keys *stored) error {
		key, err := keys.findKey(id)
		if err != nil {
			return err
		}
		if key.Revoked == nil {
			at := b.currentTime()
			key.Revoked = &at
		}
		revoked = key.toPublic()
		return nil
	})
	return revoked, err
}
