package ledger

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Texts is the index of what Embed holds: by the digest of a text, the object with its vector. Vectors stay in the
// objects that they were paid in, in the order of the corpus, so that texts which were neighbours once are found
// together: one look into the index gives an object, its first bytes give the neighbours.
//
//	ledger/embed/loose/<2 hex>/<key>   the answer to one request: digests of texts, vectors
//	ledger/texts/loose/<2 hex>/<key>   empty: the index does not hold the answer <key> yet
//	ledger/texts/packs, merged, merges the index, kept as entries of other tasks are
//	ledger/embed/indexed.json          the answers of releases without an index are in it
const Texts = "texts"

const (
	// keptAnswers bounds the answers of the index whose texts a process remembers.
	keptAnswers = 1024
	// lookNow is how old a look at what other processes stored may be where nothing is paid for yet.
	lookNow = time.Minute
	// keptBytes bounds the vectors that a process remembers: neighbours often share an answer.
	keptBytes = 32 << 20
)

// sealTexts is how many texts a process stores before it writes them into the index.
var sealTexts = 32_768

// textIndex is what a process knows of the index.
type textIndex struct {
	mu      sync.Mutex
	known   map[core.Digest]*answer // by text
	answers map[core.Digest]*answer
	sealed  []*answer            // of answers, those in the index; the oldest first
	aside   map[core.Digest]bool // answers that are gone or damaged
	own     int                  // texts that this process stored and the index does not hold
	vectors map[core.Digest][][]float32
	read    []core.Digest // keys of vectors, the oldest first
	bytes   int           // of vectors

	refreshing sync.Mutex
	refreshed  time.Time // when the last look at what others stored began
	sealing    sync.Mutex
	merging    sync.Mutex
}

func newTextIndex() *textIndex {
	return &textIndex{
		known: map[core.Digest]*answer{}, answers: map[core.Digest]*answer{}, aside: map[core.Digest]bool{},
		vectors: map[core.Digest][][]float32{},
	}
}

// learnAnswer takes an answer in, or what was known of it again. Of two that hold a text the one counts that the index
// lacks: nothing else would lead to it.
func (x *textIndex) learnAnswer(found *answer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.aside, found.object)
	if known := x.answers[found.object]; known != nil {
		found = known
	} else {
		x.answers[found.object] = found
		if found.own {
			x.own += len(found.texts)
		}
		if !found.fresh {
			x.keepAnswer(found)
		}
	}
	for _, text := range found.texts {
		if old, ok := x.known[text]; !ok || found.fresh || !old.fresh {
			x.known[text] = found
		}
	}
}

// keepAnswer remembers an answer of the index until enough others came.
func (x *textIndex) keepAnswer(found *answer) {
	x.sealed = append(x.sealed, found)
	for len(x.sealed) > keptAnswers {
		x.dropAnswer(x.sealed[0])
		x.sealed = x.sealed[1:]
	}
}

func (x *textIndex) dropAnswer(old *answer) {
	if x.answers[old.object] == old {
		delete(x.answers, old.object)
	}
	for _, text := range old.texts {
		if x.known[text] == old {
			delete(x.known, text)
		}
	}
}

// sealAnswer notes that the index holds an answer.
func (x *textIndex) sealAnswer(found *answer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !found.fresh {
		return
	}
	if found.own {
		x.own -= len(found.texts)
	}
	found.fresh, found.own = false, false
	if x.answers[found.object] == found {
		x.keepAnswer(found)
	}
}

// excludeAnswer sets an answer aside for the life of the process, or until it is stored again. It reports whether it
// was the first to do so: several readers may come upon one answer at once.
func (x *textIndex) excludeAnswer(object core.Digest) (first bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	first = !x.aside[object]
	x.aside[object] = true
	if old := x.answers[object]; old != nil {
		x.dropAnswer(old)
		x.sealed = slices.DeleteFunc(x.sealed, func(a *answer) bool { return a == old })
		if old.own {
			x.own -= len(old.texts)
		}
	}
	return first
}

// resolveTexts fills in the objects of texts that are known, and gives the places of those that are not.
func (x *textIndex) resolveTexts(texts []core.Digest, objects []core.Digest, left []int) []int {
	x.mu.Lock()
	defer x.mu.Unlock()
	unknown := left[:0:0]
	for _, i := range left {
		if found, ok := x.known[texts[i]]; ok {
			objects[i] = found.object
		} else {
			unknown = append(unknown, i)
		}
	}
	return unknown
}

// FindTexts gives, for each text, the key of the object that holds its vector; zero where nothing does. It costs about
// one request for each answer that the texts lie in.
func (l *Ledger) FindTexts(ctx context.Context, texts []core.Digest) ([]core.Digest, error) {
	if _, err := l.lookForStored(ctx, time.Now().Add(-lookNow)); err != nil {
		return nil, err
	}
	objects := make([]core.Digest, len(texts))
	left := make([]int, len(texts))
	for i := range left {
		left[i] = i
	}
	if left = l.texts.resolveTexts(texts, objects, left); len(left) == 0 {
		return objects, nil
	}
	open, err := l.openPacks(ctx, l.packs.packsOf(Texts), Texts)
	if err != nil {
		return nil, err
	}
	left = slices.DeleteFunc(left, func(i int) bool {
		return !slices.ContainsFunc(open, func(p *pack) bool { return p.mayHold(texts[i]) })
	})
	// Neighbours lie together: a few texts are looked up, and what was stored with them says of most others.
	for stride := 64; len(left) > 0; stride = max(1, stride/4) {
		var probes, rest []int
		for n, i := range left {
			if n%stride == 0 {
				probes = append(probes, i)
			} else {
				rest = append(rest, i)
			}
		}
		if err := l.lookUp(ctx, open, texts, probes); err != nil {
			return nil, err
		}
		l.texts.resolveTexts(texts, objects, probes)
		left = l.texts.resolveTexts(texts, objects, rest)
	}
	return objects, nil
}

// lookUp looks texts up in the index and learns the answers that they lie in.
func (l *Ledger) lookUp(ctx context.Context, open []*pack, texts []core.Digest, probes []int) error {
	candidates, err := l.findCandidates(ctx, open, texts, probes)
	if err != nil {
		return err
	}
	return parallel.Each(ctx, len(candidates), readWidth, func(ctx context.Context, i int) error {
		if known := l.texts.findAnswer(candidates[i]); known != nil { // it may have lost a text to another that went
			l.texts.learnAnswer(known)
			return nil
		}
		_, err := l.readHead(ctx, candidates[i], false)
		return err
	})
}

// findAnswer gives a known one.
func (x *textIndex) findAnswer(object core.Digest) *answer {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.answers[object]
}

// mayHold reports by a pack's range and filter whether it is worth reading for a key.
func (p *pack) mayHold(key core.Digest) bool {
	return key[0] >= p.from && key[0] <= p.to && bloomHas(p.filter, key)
}

// findCandidates gives the objects that the index names for texts, each once, without those that were set aside.
func (l *Ledger) findCandidates(
	ctx context.Context, open []*pack, texts []core.Digest, probes []int,
) ([]core.Digest, error) {
	type frame struct {
		*pack
		number int
		wanted []core.Digest
	}
	var frames []*frame
	byPlace := map[*pack]map[int]*frame{}
	for _, p := range open {
		for _, i := range probes {
			if !p.mayHold(texts[i]) {
				continue
			}
			number := p.reader.Find(texts[i].String())
			if number < 0 {
				continue
			}
			if byPlace[p] == nil {
				byPlace[p] = map[int]*frame{}
			}
			if byPlace[p][number] == nil {
				byPlace[p][number] = &frame{pack: p, number: number}
				frames = append(frames, byPlace[p][number])
			}
			byPlace[p][number].wanted = append(byPlace[p][number].wanted, texts[i])
		}
	}
	var mu sync.Mutex
	var found []core.Digest
	err := parallel.Each(ctx, len(frames), readWidth, func(ctx context.Context, i int) error {
		raw, err := frames[i].reader.Frame(ctx, frames[i].number)
		if err != nil && artifact.IsDamage(err) { // one that went meanwhile was merged
			l.setAside(ctx, l.packs.packsOf(Texts), frames[i].key, err)
			l.packs.packsOf(Texts).forgetList()
			return nil
		}
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, text := range frames[i].wanted {
			if object, ok := decodeIndexed(rowfile.FindRow(raw, text.String()), frames[i].merged); ok {
				found = append(found, object)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b core.Digest) int { return slices.Compare(a[:], b[:]) })
	found = slices.Compact(found)
	l.texts.mu.Lock()
	defer l.texts.mu.Unlock()
	return slices.DeleteFunc(found, func(object core.Digest) bool { return l.texts.aside[object] }), nil
}

// decodeIndexed reads an entry of the index.
func decodeIndexed(value []byte, merged bool) (core.Digest, bool) {
	if merged && len(value) > stampBytes {
		value = value[stampBytes:]
	}
	if len(value) != digestBytes {
		return core.Digest{}, false
	}
	return core.Digest(value), true
}

// readHead learns the texts of an answer; nil where it is gone or damaged.
func (l *Ledger) readHead(ctx context.Context, object core.Digest, fresh bool) (*answer, error) {
	const usual = headBytes + 128*digestBytes // of the largest request
	for length := usual; ; {
		raw, err := l.readStart(ctx, looseKey(Embed, object), sealBytes+length)
		if fault.Is(err, fault.NotFound) {
			if !fresh { // one that is being stored comes
				l.texts.excludeAnswer(object)
			}
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		raw = raw[min(sealBytes, len(raw)):] // the name is checked by the texts, the vectors when they are read
		texts, want := decodeHead(raw, object)
		if texts != nil {
			found := &answer{object: object, texts: texts, fresh: fresh}
			l.texts.learnAnswer(found)
			return found, nil
		}
		if want <= length || len(raw) < length {
			return nil, l.damagedAnswer(ctx, object)
		}
		length = want
	}
}

func (l *Ledger) readStart(ctx context.Context, key string, length int) ([]byte, error) {
	body, _, err := l.store.Get(ctx, key, blob.Range{Length: int64(length)})
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	raw, err := io.ReadAll(body) // a connection that is cut is no end
	if err != nil {
		return nil, fault.StoreDown.At("read", l.store.Location(key)).Because(err)
	}
	return raw, nil
}

// damagedAnswer removes a damaged answer. Of several readers that come upon it at once one does.
func (l *Ledger) damagedAnswer(ctx context.Context, object core.Digest) error {
	if !l.texts.excludeAnswer(object) {
		return nil
	}
	return l.removeDamaged(ctx, looseKey(Embed, object))
}

// ReadVectors gives the vectors of texts from the objects that FindTexts named; nil where one is gone or damaged, or
// none was named.
func (l *Ledger) ReadVectors(ctx context.Context, texts, objects []core.Digest) ([][]float32, error) {
	rows := map[core.Digest]map[core.Digest]int{} // object, text: where it is wanted
	var order []core.Digest
	for i, object := range objects {
		if object.IsZero() {
			continue
		}
		if rows[object] == nil {
			rows[object] = map[core.Digest]int{}
			order = append(order, object)
		}
		rows[object][texts[i]] = i
	}
	read := make([]map[core.Digest][]float32, len(order))
	err := parallel.Each(ctx, len(order), readWidth, func(ctx context.Context, i int) error {
		found, vectors, err := l.readAnswer(ctx, order[i])
		read[i] = make(map[core.Digest][]float32, len(rows[order[i]]))
		for row, text := range found {
			if _, wanted := rows[order[i]][text]; wanted {
				read[i][text] = vectors[row]
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	byObject := make(map[core.Digest]map[core.Digest][]float32, len(order))
	for i, object := range order {
		byObject[object] = read[i]
	}
	out := make([][]float32, len(texts))
	for i, object := range objects {
		out[i] = byObject[object][texts[i]]
	}
	return out, nil
}

// readAnswer reads an object; none of its texts where it is gone or damaged.
func (l *Ledger) readAnswer(ctx context.Context, object core.Digest) ([]core.Digest, [][]float32, error) {
	if texts, vectors := l.texts.recallVectors(object); texts != nil {
		return texts, vectors, nil
	}
	raw, _, err := blob.Read(ctx, l.store, looseKey(Embed, object))
	if fault.Is(err, fault.NotFound) {
		l.texts.excludeAnswer(object)
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	texts, vectors := decodeAnswer(raw, object)
	if texts == nil {
		return nil, nil, l.damagedAnswer(ctx, object)
	}
	l.texts.rememberVectors(object, vectors)
	return texts, vectors, nil
}

// recallVectors gives an answer that was read a short while ago.
func (x *textIndex) recallVectors(object core.Digest) ([]core.Digest, [][]float32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	known, vectors := x.answers[object], x.vectors[object]
	if known == nil || vectors == nil {
		return nil, nil
	}
	return known.texts, vectors
}

func (x *textIndex) rememberVectors(object core.Digest, vectors [][]float32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.answers[object] == nil || x.vectors[object] != nil {
		return
	}
	size := func(vectors [][]float32) int { return 4 * len(vectors) * len(vectors[0]) }
	x.vectors[object] = vectors
	x.read = append(x.read, object)
	for x.bytes += size(vectors); x.bytes > keptBytes; x.read = x.read[1:] {
		x.bytes -= size(x.vectors[x.read[0]])
		delete(x.vectors, x.read[0])
	}
}
