package retrieve

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/liveset"
)

// versions are what the live documents of a generation say of when they hold and of what they replace. They are read
// once, when it is opened: a question costs nothing for documents that it does not come to.
type versions struct {
	of      map[uint32]*version // documents that say when they hold, supersede another or are superseded
	cycles  string              // documents that supersede each other in a circle, in words
	unknown int                 // keys that supersedes names and no document has
}

// version is one document of them.
type version struct {
	core.Validity
	document uint32
	by       []*version // documents that supersede it, in the order of their keys; none of its own cycle
	over     []*version // while they are read: documents that it supersedes
}

// Parts of the JSON of metadata without which a document is none of versions.
var (
	saysWhen     = []byte(`"valid_`)
	saysReplaced = []byte(`"` + core.Supersedes + `":`)
)

// readVersions reads them. Of 100,000 documents without such fields it looks at the bytes of their metadata alone.
func readVersions(live *liveset.Set) versions {
	out := versions{of: map[uint32]*version{}}
	entry := func(document uint32) *version {
		if out.of[document] == nil {
			out.of[document] = &version{document: document}
		}
		return out.of[document]
	}
	documents, _, _ := live.Counts()
	for i := range uint32(documents) { //nolint:gosec // documents are counted in 32 bits
		raw := live.MetaBytes(int(i))
		if !bytes.Contains(raw, saysWhen) && !bytes.Contains(raw, saysReplaced) {
			continue
		}
		meta, _ := live.FilterFields(int(i))
		newer := entry(i)
		newer.Validity = core.ReadValidity(meta)
		found, missing := findKeys(live, meta[core.Supersedes])
		out.unknown += missing
		for _, document := range found {
			older := entry(document)
			if !slices.Contains(newer.over, older) {
				newer.over, older.by = append(newer.over, older), append(older.by, newer)
			}
		}
	}
	out.cycles = out.dropCycles(live)
	return out
}

// maxKeyCommas is how many commas that are followed by a blank a key has at most, as a list is stored with them.
const maxKeyCommas = 4

// findKeys returns the documents of a list of keys, and how many of the keys are of none.
func findKeys(live *liveset.Set, list string) (found []uint32, missing int) {
	if list == "" {
		return nil, 0
	}
	parts := strings.Split(list, listComma)
	for at := 0; at < len(parts); {
		end, document := min(len(parts), at+1+maxKeyCommas), -1
		for ; end > at && document < 0; end-- {
			document = live.FindDocument(strings.Join(parts[at:end], listComma))
		}
		if document < 0 {
			missing++
			at++
			continue
		}
		found = append(found, uint32(document)) //nolint:gosec // documents are counted in 32 bits
		at = end + 1
	}
	return found, missing
}

// mostCycles are named in words, and so many of the keys of each.
const mostCycles = 5

// dropCycles takes away what documents that supersede each other in a circle, or themselves, say of each other, and
// names them.
func (v *versions) dropCycles(live *liveset.Set) (words string) {
	var order []*version
	seen := map[*version]bool{}
	byDocument := func(a, b *version) int { return int(a.document) - int(b.document) }
	inOrder := slices.SortedFunc(maps.Values(v.of), byDocument)
	for _, one := range inOrder {
		older := func(of *version) []*version { return of.over }
		walkDeep(one, older, seen, func(left *version) { order = append(order, left) })
	}
	clear(seen)
	circle := map[*version]*version{} // the first of those that lead to each other
	var cycles []string
	for _, first := range slices.Backward(order) {
		var keys []string
		walkDeep(first, func(of *version) []*version { return of.by }, seen, func(left *version) {
			circle[left] = first
			keys = append(keys, live.Key(int(left.document)))
		})
		if len(keys) > 1 || slices.Contains(first.by, first) {
			slices.Sort(keys)
			cycles = append(cycles, strings.Join(keys[:min(len(keys), mostCycles)], ", "))
		}
	}
	for _, one := range inOrder {
		one.over = nil
		one.by = slices.DeleteFunc(one.by, func(newer *version) bool { return circle[newer] == circle[one] })
	}
	if len(cycles) == 0 {
		return ""
	}
	slices.Sort(cycles)
	return fmt.Sprintf("supersedes runs in a circle and does not count among: %s.",
		strings.Join(cycles[:min(len(cycles), mostCycles)], "; "))
}

// walkDeep visits a version and all that it leads to which were not seen, each behind those that it leads to.
func walkDeep(from *version, next func(*version) []*version, seen map[*version]bool, leave func(*version)) {
	type step struct {
		at   *version
		done int
	}
	var path []step
	enter := func(one *version) {
		if !seen[one] {
			seen[one] = true
			path = append(path, step{at: one})
		}
	}
	for enter(from); len(path) > 0; {
		last := &path[len(path)-1]
		if to := next(last.at); last.done < len(to) {
			last.done++
			enter(to[last.done-1])
			continue
		}
		leave(last.at)
		path = path[:len(path)-1]
	}
}

// TimeView is what holds at one time. It is of one goroutine.
type TimeView struct {
	*versions
	live       *liveset.Set
	at         time.Time
	without    map[uint32]bool // documents that supersede none
	seen       map[*version]bool
	superseded map[*version]bool
}

// ViewVersions returns what holds at a time, where some documents do not count.
func (g *Generation) ViewVersions(at time.Time, without map[string]bool) *TimeView {
	view := &TimeView{
		versions: &g.versions, live: g.Live, at: at, without: map[uint32]bool{}, seen: map[*version]bool{},
		superseded: map[*version]bool{},
	}
	for key := range without {
		if document := g.Live.FindDocument(key); document >= 0 {
			view.without[uint32(document)] = true //nolint:gosec // documents are counted in 32 bits
		}
	}
	return view
}

// findSuperseders returns those that supersede a document at the time: by themselves, or as what supersedes them holds.
func (t *TimeView) findSuperseders(of *version) (out []*version) {
	counts := func(newer *version) bool {
		return !t.without[newer.document] && newer.Contains(t.at) || t.superseded[newer]
	}
	walkDeep(of, func(one *version) []*version { return one.by }, t.seen, func(one *version) {
		t.superseded[one] = slices.ContainsFunc(one.by, counts)
	})
	for _, newer := range of.by {
		if counts(newer) {
			out = append(out, newer)
		}
	}
	return out
}

// holds reports whether a document is in force at the time.
func (t *TimeView) holds(document uint32) bool {
	one := t.of[document]
	return one == nil || one.Contains(t.at) && len(t.findSuperseders(one)) == 0
}

// describeTime returns the time as people read it: a day where it is the beginning of one.
func (t *TimeView) describeTime() string {
	if at := t.at.UTC(); at.Equal(at.Truncate(24 * time.Hour)) {
		return at.Format(time.DateOnly)
	}
	return t.at.Format(time.RFC3339)
}

// VersionNote is what a document says of when it holds, and what others say of it.
type VersionNote struct {
	SupersededBy []string `json:"superseded_by,omitempty" doc:"keys of documents in force that replace this one"`
	MoreNewer    int      `json:"superseded_by_more,omitempty" doc:"how many more there are than superseded_by names"`
	ValidFrom    string   `json:"valid_from,omitempty" doc:"when the document comes into force"`
	ValidUntil   string   `json:"valid_until,omitempty" doc:"its last day, or the time at which it ends"`
	Authority    *float64 `json:"authority,omitempty" doc:"where documents contradict each other, the higher one counts"`
}

// ReadVersion returns what the metadata of a document says of when it holds.
func ReadVersion(meta map[string]string) (out VersionNote) {
	if number, ok := core.ParseNumber(meta[core.Authority]); ok {
		out.Authority = &number
	}
	dates := core.ReadValidity(meta)
	if !dates.From.IsZero() {
		out.ValidFrom = meta[core.ValidFrom]
	}
	if !dates.Until.IsZero() {
		out.ValidUntil = meta[core.ValidUntil]
	}
	return out
}

// mostSuperseders of a document are named.
const mostSuperseders = 20

// AddSuperseders enters what supersedes a document at the time, those first of which passages were found.
func (t *TimeView) AddSuperseders(to *VersionNote, document uint32, found map[uint32]bool) {
	one := t.of[document]
	if one == nil {
		return
	}
	newer := t.findSuperseders(one)
	sort.SliceStable(newer, func(i, j int) bool { return found[newer[i].document] && !found[newer[j].document] })
	named := newer[:min(len(newer), mostSuperseders)]
	to.MoreNewer = len(newer) - len(named)
	for _, one := range named {
		to.SupersededBy = append(to.SupersededBy, t.live.Key(int(one.document)))
	}
}

// VersionCycles names documents that supersede each other in a circle, in words; empty: there are none.
func (g *Generation) VersionCycles() string { return g.versions.cycles }
