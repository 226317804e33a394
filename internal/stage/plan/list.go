package plan

import (
	"context"
	"errors"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// listCorpus puts into the sort what is compared with the parent: every document of the corpus, by ranges of its keys
// side by side, or the objects of In.Hinted. A listing that breaks off is an error: what it did not reach would count
// as removed.
func (p *planner) listCorpus(ctx context.Context) error {
	ranges, err := p.findRanges(ctx)
	if err != nil {
		return err
	}
	p.reading = make(chan struct{}, readers)
	err = parallel.Each(ctx, len(ranges), mostRanges, func(ctx context.Context, i int) error {
		part := &listing{planner: p, number: i}
		defer part.addCounts()
		return part.listRange(ctx, ranges[i])
	})
	if reported := p.tellListed(); err == nil {
		err = reported
	}
	return err
}

// listing is the listing of one range of the corpus. What ranges have in common is the planner's, under its lock, which
// no range holds while it waits: a range that waits for its store, or for its turn to read an object, keeps
// no other from getting on.
type listing struct {
	*planner
	number  int // of the range, in the order of the keys
	leftOut core.LeftOut
}

// addCounts enters what the range counted by itself.
func (l *listing) addCounts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := &l.res.LeftOut
	out.Hidden += l.leftOut.Hidden
	out.Packages += l.leftOut.Packages
	out.NotIncluded += l.leftOut.NotIncluded
	out.Excluded += l.leftOut.Excluded
	out.AddOtherTypes(l.leftOut)
}

// listRange lists the objects of a range. An object that the store lists but cannot describe is a problem of that
// object.
func (l *listing) listRange(ctx context.Context, keys keyRange) error {
	for info, err := range l.Corpus.ListRange(ctx, keys.prefix, keys.after, keys.until) {
		if err != nil {
			if info.Key == "" {
				return err
			}
			if l.isChosen(info.Key, fault.Is(err, fault.NotFollowed)) {
				l.noteUnlisted(info.Key, err)
			}
			continue
		}
		owner, sidecar := strings.CutSuffix(info.Key, document.SidecarSuffix)
		if !l.isChosen(owner, false) { // what includes a document includes its metadata
			continue
		}
		if sidecar {
			l.addSidecar(owner, info)
			continue
		}
		kind, gz, known := stage.TypeOf(l.Spec, info.Key)
		if !known {
			if document.IsNoText(info.Key) || info.Archived != "" || info.Size == 0 {
				l.leftOut.AddOtherType(info.Key)
				continue
			}
			kind = document.Text // if it holds text: version looks
		}
		row := rows.Plan{
			Object:   info.Key,
			Kind:     string(kind),
			Gzip:     gz,
			ETag:     info.ETag,
			Size:     info.Size,
			Modified: info.Modified,
			Archived: info.Archived,
		}
		records, err := l.listsRecords(ctx, row)
		if err != nil {
			return err
		}
		if !kind.HasRows() && !records {
			l.addListed(core.ObjectKey(info.Key), firstReading, row)
			continue
		}
		if l.wasListed(info.Key) {
			l.refuseAgain(info.Key)
			continue
		}
		if info.Archived != "" {
			l.refuseObject(info.Key, fault.StoreDenied, info.Key, l.archivedFault(row).Error())
			continue
		}
		if err := l.readRows(ctx, row, kind); err != nil {
			return err
		}
	}
	return nil
}

// wasListed reports whether the rows of an object were listed before: a store may give a key twice.
func (l *listing) wasListed(object string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.withRows[object]
	l.withRows[object] = true
	return before
}

// refuseAgain records that an object with rows is listed a second time.
func (l *listing) refuseAgain(object string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.res.Refused++
	l.found.add(l.number, problemOf(fault.DuplicateRow, object, listedTwice(object).Error(), false))
}

// listedTwice returns the fault of an object that the store lists again.
func listedTwice(object string) *fault.Error {
	return fault.DuplicateRow.At("list", object).Because("the store lists this key twice; the object is read once").
		Advise("check the listing of the store: each key must be unique")
}

// archivedFault returns the fault of an object that must be restored before it can be read.
func (p *planner) archivedFault(row rows.Plan) *fault.Error {
	return blob.ArchivedObject(p.Corpus.Location(row.Object), row.Archived)
}

// noteUnlisted records a name that the store lists and cannot describe. A link that is not followed is reported and is
// no document: what the parent had by it is removed, as if it were gone, and the gate decides.
func (l *listing) noteUnlisted(key string, err error) {
	code := fault.CodeOf(err)
	if code != fault.NotFollowed {
		l.refuseObject(key, code, key, err.Error())
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found.add(l.number, problemOf(code, key, err.Error(), false))
}

// refuseObject records what cannot become a document. Documents that the parent had of the object are lost, not
// removed.
func (l *listing) refuseObject(object string, code fault.Code, where, detail string) {
	problem := problemOf(code, where, detail, false)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.res.Refused++
	if _, known := l.broken[object]; !known {
		l.broken[object] = code
	}
	l.found.add(l.number, problem)
}

// listedRow returns a document in the sort: the row, behind the number of the reading of its object that gave it.
func listedRow(reading byte, row rows.Plan) []byte { return append([]byte{reading}, row.Encode()...) }

func (p *planner) addListed(key string, reading byte, row rows.Plan) {
	value := listedRow(reading, row)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.documents.Add([]byte(key), value)
	p.listed++
	p.bytes += max(0, row.Size)
	if p.listed%256 == 0 {
		p.OnProgress(p.listed)
	}
}

// forgetReading takes back what was counted of a reading that is of no version.
func (p *planner) forgetReading(reading rowReading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed -= reading.listed
}

// takeReading says which reading of an object counts.
func (p *planner) takeReading(object string, number byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken[object] = number
}

// noReading counts where an object was never at rest: none of what was read of it.
const noReading = 255

// readRows adds the rows of one object. An object that breaks in the middle keeps its rows up to there and is a
// problem. Ranges read as many at once as there are readers, since each of them may hold a row of the largest size.
func (l *listing) readRows(ctx context.Context, row rows.Plan, kind document.Kind) error {
	select {
	case l.reading <- struct{}{}:
		defer func() { <-l.reading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var reading rowReading
	err := stage.ReadSteady(ctx, l.Corpus, infoOf(row), func(seen blob.Info) error {
		l.forgetReading(reading)
		reading = rowReading{listing: l, number: reading.number + 1, object: row.Object}
		row.ETag, row.Size, row.Modified = seen.ETag, seen.Size, seen.Modified
		return reading.readAll(ctx, row, kind, seen)
	})
	if mixed := errors.Is(err, document.ErrMixed); mixed || fault.Is(err, fault.DocumentChanged) {
		l.forgetReading(reading)
		l.takeReading(row.Object, noReading)
		if mixed {
			l.addListed(core.ObjectKey(row.Object), noReading, row)
			return nil
		}
		return l.noteUnusable(row.Object, err)
	}
	if reading.number > firstReading {
		l.takeReading(row.Object, reading.number)
	}
	if err == nil && reading.listed == 0 && len(reading.refused) == 0 {
		l.noteBroken(row.Object, fault.EmptyDocument)
	}
	reading.reportRefused()
	if err != nil && ctx.Err() == nil {
		return l.noteUnusable(row.Object, err)
	}
	return err
}

// listsRecords reports whether a .json may be a list of records, by its beginning. What the parent has of one that
// cannot be read, or holds nothing, is lost, not removed.
func (l *listing) listsRecords(ctx context.Context, row rows.Plan) (records bool, err error) {
	if row.Kind != string(document.JSON) {
		return false, nil
	}
	empty := false
	if row.Archived != "" {
		err = l.archivedFault(row)
	} else {
		records, empty, err = l.peekRecords(ctx, row)
	}
	code, ofObject := blameError(err)
	switch {
	case err == nil && !empty:
	case ctx.Err() != nil || err != nil && !ofObject:
		return false, errors.Join(ctx.Err(), err)
	case code == fault.DocumentChanged:
		return true, nil // readRows reads it until it is at rest
	case empty:
		l.noteBroken(row.Object, fault.EmptyDocument)
	case err != nil:
		l.noteBroken(row.Object, code)
	}
	return records, nil
}

func (l *listing) peekRecords(ctx context.Context, row rows.Plan) (records, empty bool, err error) {
	body, err := stage.Open(ctx, l.Corpus, infoOf(row))
	if err != nil {
		return false, false, err
	}
	defer func() { _ = body.Close() }() // only its beginning counts
	text, _, err := l.decodeBody(row, document.JSON, body)
	if err != nil {
		return false, false, err
	}
	records, empty = document.ListsRecords(text)
	return records, empty, ctx.Err()
}

// noteBroken records an object that gives no row: that is no problem of a new one, and where the parent has rows they
// are lost.
func (p *planner) noteBroken(object string, code fault.Code) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken[object] = code
}

// infoOf returns the object of a row as the listing had it.
func infoOf(row rows.Plan) blob.Info {
	return blob.Info{Key: row.Object, Size: row.Size, ETag: row.ETag, Modified: row.Modified}
}

// noteUnusable records an object that cannot be read; what is wrong with the store stops the stage.
func (l *listing) noteUnusable(object string, err error) error {
	code, ofObject := blameError(err)
	if !ofObject {
		return err
	}
	l.refuseObject(object, code, object, err.Error())
	return nil
}

// blameError reports whether an error of reading is the object's own: its content, its permissions, or that it changed
// while it was listed. Everything else is the store's, and repeating the stage may heal it.
func blameError(err error) (code fault.Code, ofObject bool) {
	switch code = fault.CodeOf(err); {
	case code == fault.StoreDenied:
		return code, true
	case code == fault.Precondition, code == fault.NotFound:
		return fault.DocumentChanged, true
	case fault.As(err) != nil:
		return code, fault.KindOf(err) == fault.Content
	}
	return code, false
}
