package plan

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/rows"
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
			p.refuse(info.Key, fault.CodeOf(err), info.Key, err.Error())
			continue
		}
		kind, gz, hidden, known := document.KindOf(info.Key)
		if hidden {
			continue
		}
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
			p.add(corpus.ObjectKey(info.Key), row)
			continue
		}
		if err := p.rows(ctx, row, kind); err != nil {
			return err
		}
	}
	return nil
}

// refuse records what cannot become a document. Documents that the parent had of the object are lost, not removed.
func (p *planner) refuse(object string, code fault.Code, where, detail string) {
	p.res.Refused++
	p.broken[object] = true
	p.problems.add(code, where, detail, false)
}

func (p *planner) add(key string, row rows.Plan) {
	p.documents.Add([]byte(key), row.Encode())
	p.listed++
	if p.listed%256 == 0 {
		p.OnProgress(p.listed)
	}
}

// rows adds the rows of one object. An object that breaks in the middle keeps its rows up to there and is a problem.
func (p *planner) rows(ctx context.Context, row rows.Plan, kind document.Kind) error {
	body, _, err := p.Corpus.Get(ctx, row.Object, blob.Range{Length: -1, Match: row.ETag})
	if err != nil {
		return p.unusable(row.Object, err)
	}
	defer func() { _ = body.Close() }()
	plain, err := document.Gunzip(body, row.Gzip, row.Object)
	if err != nil {
		return p.unusable(row.Object, err)
	}
	text, err := document.Decode(plain, row.Object)
	if err != nil {
		return p.unusable(row.Object, err)
	}
	err = document.Rows(text, kind, row.Object, func(read document.Row) error {
		if read.Err != nil {
			where := fmt.Sprintf("%s line %d", row.Object, read.Line)
			p.refuse(row.Object, fault.CodeOf(read.Err), where, read.Err.Error())
			return ctx.Err()
		}
		one := row
		one.Line, one.Record, one.Size = read.Line, read.Canonical, int64(len(read.Canonical))
		one.Version = sha256.Sum256(read.Canonical)
		p.add(corpus.RowKey(row.Object, read.ID), one)
		return ctx.Err()
	})
	if err != nil && ctx.Err() == nil {
		return p.unusable(row.Object, err)
	}
	return err
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
