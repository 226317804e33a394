// Package answers keeps what answers of method apr said, as triples, for later questions of the same namespace
// (docs/methods/apr.md, Earlier answers). It is no part of a generation and of no ledger:
//
//	<index>/answers/<owner>/<name>.json    the answers of one namespace, the oldest first
//
// A namespace is one object, which is replaced as a whole and on condition, so that it is never half written and no
// writer loses what another wrote. What is kept says what a model said and no more: who reads it compares it with the
// generation that is served.
package answers

import (
	"context"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/vector"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Shared begins the names of namespaces that belong to no caller: whoever may ask the index reads, writes and clears
// them.
const Shared = "shared:"

// NamePattern is what names of namespaces look like. They become names of objects: no upper case, which some stores
// do not tell from lower case, and no way out of a folder.
const NamePattern = `^(shared:)?[a-z0-9][a-z0-9._-]{0,63}$`

var named = regexp.MustCompile(NamePattern)

const (
	sharedFolder = "shared"
	ending       = ".json"
	format       = 1
	// MostNames bounds the namespaces of one owner; the one that was written longest ago goes first.
	MostNames = 1000
	// MostTriples bounds those of one answer.
	MostTriples = 16
	// MostSources bounds the documents that one answer rests on: a question looks at each of them. Answers that were told
	// earlier ones rest on the documents of those, too.
	MostSources = 128
	tries       = 8 // of a write that others race with
)

// Space is a namespace: whose it is, and its name.
type Space struct{ owner, name string }

// In gives the namespace that a caller means. An owner is whatever tells callers apart; a caller without one has no
// namespaces.
func In(owner, name string) (Space, error) {
	if !named.MatchString(name) {
		return Space{}, fault.InvalidParam.At("name namespace", fault.Quoted(name)).
			Because("want lower-case letters a-z, digits and . _ -, at most 64, none of . _ - first").
			Advise("put shared: before it for one that all callers of the index share")
	}
	if owner == "" {
		return Space{}, fault.Forbidden.At("use namespace", name).
			Because("nobody can tell whose it would be: this server asks for no key").
			Advise("set query_api.auth: required and ask with a key")
	}
	if rest, shared := strings.CutPrefix(name, Shared); shared {
		return Space{sharedFolder, rest}, nil
	}
	return Space{folderOf(owner), name}, nil
}

// folderOf an owner: nothing of whom it is can be read off it, and owners that differ in case have two.
func folderOf(owner string) string { return core.Sum("answers/1", owner).String()[:32] }

// Name as callers give it.
func (s Space) Name() string {
	if s.owner == sharedFolder {
		return Shared + s.name
	}
	return s.name
}

// Shared tells whether all callers of the index have it.
func (s Space) Shared() bool { return s.owner == sharedFolder }

// Word is a triple in words.
type Word struct {
	Head     string `json:"head"`
	Relation string `json:"relation"`
	Tail     string `json:"tail"`
}

// Support is an edge of the corpus that supports a triple.
type Support struct {
	Word
	Cosine float64 `json:"cosine"`
}

// Triple is what an answer said, with what of the corpus supported it when it was kept.
type Triple struct {
	Word
	Support []Support `json:"support,omitempty"`
}

// Source is a document that an answer rests on: the version and the chunks of it that were in the prompt, or that say
// what supports it.
type Source struct {
	Document string      `json:"document"`
	Version  core.Digest `json:"version"`
	Chunks   []core.ID   `json:"chunks"`
}

// Answer is what is kept of one.
type Answer struct {
	Origin     string      `json:"origin"` // always Origin
	At         time.Time   `json:"at"`
	Generation string      `json:"generation"`
	Question   string      `json:"question"`
	Confidence *float64    `json:"confidence,omitempty"`
	Embedder   core.Digest `json:"embedder"` // fingerprint of that of Vector
	Vector     Vector      `json:"vector"`   // of the question
	Triples    []Triple    `json:"triples"`
	Sources    []Source    `json:"sources"`
}

// Origin of everything that is kept here.
const Origin = "answer"

// Vector is stored as base64 of its little-endian numbers.
type Vector = vector.JSON

// Word as prompts have it.
func (w Word) Word() apr.Word { return apr.Word(w) }

type file struct {
	Format  int      `json:"format"`
	Answers []Answer `json:"answers"`
}

// Store is what is kept of the answers to questions to one index.
type Store struct {
	Index artifact.Index
	Most  core.WriteBack
}

func (s Store) key(space Space) string { return s.Index.AnswersKey(space.owner, space.name+ending) }

// Read gives the answers of a namespace, the oldest first; none where it is not there. A damaged one is SegmentDamage,
// one of a newer program FormatUnknown.
func (s Store) Read(ctx context.Context, space Space) ([]Answer, error) {
	answers, _, err := s.read(ctx, s.key(space))
	return answers, err
}

func (s Store) read(ctx context.Context, key string) ([]Answer, string, error) {
	var kept file
	info, err := blob.ReadJSON(ctx, s.Index.Store, key, &kept)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, "", nil
	case err != nil:
		if fault.Is(err, fault.SegmentDamage) {
			err = fault.SegmentDamage.At("read answers", s.Index.Store.Location(key)).Because(err).
				Advise("clear the namespace: unweaver answers clear NAME --index " + s.Index.Name)
		}
		return nil, info.ETag, err
	case kept.Format != format:
		return nil, info.ETag, fault.FormatUnknown.At("read answers", s.Index.Store.Location(key)).
			Because("they are of another version than this program reads").Advise("update this program, or clear the namespace")
	}
	return kept.Answers, info.ETag, nil
}

// Add keeps an answer in place of an earlier one to the same question. Of the others those go that stay says no to,
// then the oldest until there is room. kept is false where the answer alone has no room, or rests on more than
// MostSources.
func (s Store) Add(ctx context.Context, space Space, answer Answer, stay func(Answer) bool) (kept bool, err error) {
	if len(answer.Sources) > MostSources {
		return false, nil
	}
	answer.Origin = Origin
	key := s.key(space)
	for range tries {
		before, etag, err := s.read(ctx, key)
		if err != nil && !fault.Is(err, fault.SegmentDamage) { // what is damaged is of no use to anybody
			return false, err
		}
		if err != nil && etag == "" {
			return false, err
		}
		all := slices.DeleteFunc(before, func(other Answer) bool {
			return sameQuestion(other.Question, answer.Question) || !stay(other)
		})
		raw, n, err := fitting(append(all, answer), s.Most)
		if err != nil || n == 0 {
			return false, err
		}
		cond := blob.Cond{Match: etag, Absent: etag == ""}
		if cond.Absent {
			if err := s.room(ctx, space); err != nil {
				return false, err
			}
		}
		_, err = blob.Write(ctx, s.Index.Store, key, raw, cond)
		if !fault.Is(err, fault.Precondition) {
			return err == nil, err
		}
	}
	return false, fault.GenBusy.At("keep answer in", space.Name()).Because("others write to it all the time")
}

func sameQuestion(a, b string) bool {
	return strings.EqualFold(strings.Join(strings.Fields(a), " "), strings.Join(strings.Fields(b), " "))
}

// fitting writes as many of the last answers as there is room for.
func fitting(all []Answer, most core.WriteBack) (raw []byte, n int, err error) {
	all = all[max(0, len(all)-most.Answers):]
	pieces := make([]json.RawMessage, len(all))
	size := int64(len(`{"format":1,"answers":[]}`))
	from := len(all)
	for from > 0 {
		piece, err := json.Marshal(all[from-1])
		if err != nil {
			return nil, 0, fault.Internal.At("encode", "an answer").Because(err)
		}
		if size += int64(len(piece)) + 1; size > most.Bytes {
			break
		}
		from--
		pieces[from] = piece
	}
	raw, err = json.Marshal(map[string]any{"format": format, "answers": pieces[from:]})
	return raw, len(all) - from, err
}

// room takes the namespace of an owner that was written longest ago, where there are as many as there may be.
func (s Store) room(ctx context.Context, space Space) error {
	listed, err := s.list(ctx, space.owner)
	if err != nil || len(listed) < MostNames {
		return err
	}
	oldest := slices.MinFunc(listed, func(a, b Listed) int { return a.Written.Compare(b.Written) })
	return s.Index.Store.Delete(ctx, s.key(oldest.Space))
}

// Listed is a namespace.
type Listed struct {
	Space   Space
	Bytes   int64
	Written time.Time
}

// List gives the namespaces of a caller, and those that all share, by name. A caller whom nobody can tell has none.
func (s Store) List(ctx context.Context, owner string) ([]Listed, error) {
	if owner == "" {
		return nil, nil
	}
	var out []Listed
	for _, folder := range []string{sharedFolder, folderOf(owner)} {
		listed, err := s.list(ctx, folder)
		if err != nil {
			return nil, err
		}
		out = append(out, listed...)
	}
	slices.SortFunc(out, func(a, b Listed) int { return strings.Compare(a.Space.Name(), b.Space.Name()) })
	return out, nil
}

func (s Store) list(ctx context.Context, folder string) ([]Listed, error) {
	var out []Listed
	for info, err := range s.Index.Store.List(ctx, s.Index.AnswersKey(folder, "")+"/", "") {
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(path.Base(info.Key), ending)
		out = append(out, Listed{Space{folder, name}, info.Size, info.Modified})
	}
	return out, nil
}

// Remove takes an answer out that was added; one that is not there is gone already.
func (s Store) Remove(ctx context.Context, space Space, answer Answer) error {
	_, err := without(ctx, s, s.key(space), func(other Answer) bool {
		return other.Question == answer.Question && other.At.Equal(answer.At)
	}, func(context.Context) error { return nil })
	return err
}

// Clear forgets a namespace, and tells whether there was one.
func (s Store) Clear(ctx context.Context, space Space) (bool, error) {
	_, err := s.Index.Store.Stat(ctx, s.key(space))
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, s.Index.Store.Delete(ctx, s.key(space))
}

// Drop forgets all answers of an index, whosever they are, and gives how many namespaces there were.
func Drop(ctx context.Context, index artifact.Index) (int64, error) {
	keys, err := keysOf(ctx, index)
	if err != nil {
		return 0, err
	}
	return int64(len(keys)), artifact.DeleteAll(ctx, index.Store, keys)
}

func keysOf(ctx context.Context, index artifact.Index) ([]string, error) {
	if err := index.Check(); err != nil {
		return nil, err
	}
	var keys []string
	for info, err := range index.Store.List(ctx, index.AnswersKey("", "")+"/", "") {
		if err != nil {
			return nil, err
		}
		keys = append(keys, info.Key)
	}
	return keys, nil
}

// Purge takes the answers out of an index that rest on a document, whosever they are, and gives how many there were.
// Namespaces that cannot be read are forgotten as a whole, and count as one. permit is asked before anything is
// written.
func Purge(
	ctx context.Context, index artifact.Index, rests func(document string) bool, permit func(context.Context) error,
) (gone int64, err error) {
	keys, err := keysOf(ctx, index)
	if err != nil {
		return 0, err
	}
	for _, key := range keys {
		n, err := without(ctx, Store{Index: index}, key, func(answer Answer) bool {
			return slices.ContainsFunc(answer.Sources, func(source Source) bool { return rests(source.Document) })
		}, permit)
		if gone += n; err != nil {
			return gone, err
		}
	}
	return gone, nil
}

// without takes answers out of a namespace; one that cannot be read goes as a whole.
func without(
	ctx context.Context, s Store, key string, goes func(Answer) bool, permit func(context.Context) error,
) (int64, error) {
	for range tries {
		all, etag, err := s.read(ctx, key)
		unreadable := fault.Is(err, fault.SegmentDamage) || fault.Is(err, fault.FormatUnknown)
		if err != nil && !unreadable {
			return 0, err
		}
		before := len(all)
		all = slices.DeleteFunc(all, goes)
		gone := int64(before - len(all))
		if gone == 0 && !unreadable {
			return 0, nil
		}
		if err := permit(ctx); err != nil {
			return 0, err
		}
		if unreadable || len(all) == 0 {
			return max(gone, 1), s.Index.Store.Delete(ctx, key)
		}
		raw, err := json.Marshal(file{format, all})
		if err != nil {
			return 0, fault.Internal.At("encode", "answers").Because(err)
		}
		_, err = blob.Write(ctx, s.Index.Store, key, raw, blob.Cond{Match: etag})
		if !fault.Is(err, fault.Precondition) {
			return gone, err
		}
	}
	return 0, fault.GenBusy.At("take answers out of", s.Index.Store.Location(key)).
		Because("others write to it all the time")
}

// Joined gives sources with those of one version of a document as one, in the order of the first.
func Joined(sources []Source) []Source {
	var out []Source
	for _, one := range sources {
		at := slices.IndexFunc(out, func(other Source) bool {
			return other.Document == one.Document && other.Version == one.Version
		})
		if at < 0 {
			at, out = len(out), append(out, Source{Document: one.Document, Version: one.Version})
		}
		for _, id := range one.Chunks {
			if !slices.Contains(out[at].Chunks, id) {
				out[at].Chunks = append(out[at].Chunks, id)
			}
		}
	}
	return out
}
