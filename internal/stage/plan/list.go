package plan

import (
	"context"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// list puts every document of the corpus into the sort. An object that the store lists but cannot describe is a
// problem of that object; a listing that breaks off is an error, as what it did not reach would count as removed.
func (p *planner) list(ctx context.Context) error {
	for info, err := range p.Corpus.List(ctx, "", "") {
		if err != nil {
			if info.Key == "" {
				return err
			}
			if p.chosen(info.Key, fault.Is(err, fault.NotFollowed)) {
				p.unlisted(info.Key, err)
			}
			continue
		}
		if !p.chosen(info.Key, false) {
			continue
		}
		kind, gz, known := document.TypeOf(info.Key)
		if !known {
			p.refuse(info.Key, fault.UnknownType, info.Key, "this type is not read; known: "+document.Extensions)
			continue
		}
		row := rows.Plan{
			Object:   info.Key,
			Kind:     string(kind),
			Gzip:     gz,
			ETag:     info.ETag,
			Size:     info.Size,
			Modified: info.Modified,
		}
		if !kind.HasRows() {
			p.add(corpus.ObjectKey(info.Key), firstReading, row)
			continue
		}
		if err := p.rows(ctx, row, kind); err != nil {
			return err
		}
	}
	return nil
}

// unlisted records a name that the store lists and cannot describe. A link that is not followed is told and is no
// document: what the parent had by it is removed, as if it were gone, and the gate decides.
func (p *planner) unlisted(key string, err error) {
	code := fault.CodeOf(err)
	if code != fault.NotFollowed {
		p.refuse(key, code, key, err.Error())
		return
	}
	p.problems.add(code, key, err.Error(), false)
}

// refuse records what cannot become a document. Documents that the parent had of the object are lost, not removed.
func (p *planner) refuse(object string, code fault.Code, where, detail string) {
	p.res.Refused++
	if _, known := p.broken[object]; !known {
		p.broken[object] = code
	}
	p.problems.add(code, where, detail, false)
}

// listedRow is a document in the sort: the row, behind the number of the reading of its object that gave it.
func listedRow(reading byte, row rows.Plan) []byte { return append([]byte{reading}, row.Encode()...) }

func (p *planner) add(key string, reading byte, row rows.Plan) {
	p.documents.Add([]byte(key), listedRow(reading, row))
	p.listed++
	p.bytes += max(0, row.Size)
	if p.listed%256 == 0 {
		p.OnProgress(p.listed)
	}
}

// noReading counts where an object was never at rest: none of what was read of it.
const noReading = 255

// rows adds the rows of one object. An object that breaks in the middle keeps its rows up to there and is a problem.
func (p *planner) rows(ctx context.Context, row rows.Plan, kind document.Kind) error {
	var reading rowReading
	err := stage.Steady(ctx, p.Corpus, infoOf(row), func(seen blob.Info) error {
		p.listed -= reading.listed // what was read before is of no version
		reading = rowReading{planner: p, number: reading.number + 1, object: row.Object}
		row.ETag, row.Size, row.Modified = seen.ETag, seen.Size, seen.Modified
		return reading.all(ctx, row, kind, seen)
	})
	if fault.Is(err, fault.DocumentChanged) {
		p.listed -= reading.listed
		p.taken[row.Object] = noReading
		return p.unusable(row.Object, err)
	}
	if reading.number > firstReading {
		p.taken[row.Object] = reading.number
	}
	if err == nil && reading.listed == 0 && len(reading.refused) == 0 {
		p.broken[row.Object] = fault.EmptyDocument // where the parent has rows of it; a new one is no problem
	}
	reading.tell()
	if err != nil && ctx.Err() == nil {
		return p.unusable(row.Object, err)
	}
	return err
}

// infoOf is the object of a row as the listing had it.
func infoOf(row rows.Plan) blob.Info {
	return blob.Info{Key: row.Object, Size: row.Size, ETag: row.ETag, Modified: row.Modified}
}

// unusable records an object that cannot be read; what is wrong with the store stops the stage.
func (p *planner) unusable(object string, err error) error {
	code, ofObject := blame(err)
	if !ofObject {
		return err
	}
	p.refuse(object, code, object, err.Error())
	return nil
}

// blame tells whether an error of reading is the object's own: its content, its permissions, or that it changed while
// it was listed. Everything else is the store's, and repeating the stage may heal it.
func blame(err error) (code fault.Code, ofObject bool) {
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
