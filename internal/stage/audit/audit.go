// Package audit checks a generation against itself. It makes the classes again from their mentions and compares them
// with the class rows, and it compares the chunks of the documents segments with those of the splits. It calls no model
// and writes nothing. Package verify checks what the stores hold.
package audit

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stage/classmerge"
	"github.com/unweaver/unweaver/internal/text/classtext"
)

// In is what a unit works on. OnProgress is called as it gets on.
type In struct {
	Spec       core.Spec // that the generation was built with
	Artifacts  artifact.Index
	Manifest   *core.Manifest
	Table      *segments.Table
	OnProgress func()
}

// Result is what a unit looked at and found. Content is its part of the content hash, as it was made again.
type Result struct {
	Checked  core.Audited `json:"checked"`
	Content  core.SetHash `json:"content"`
	Drift    []core.Drift `json:"drift,omitempty"`
	Findings []core.Found `json:"findings,omitempty"` // the first of each kind
	Unread   bool         `json:"unread,omitempty"`   // a segment is damaged: the rest of the unit is not known
}

// Examples is how many findings of each kind are reported.
const Examples = 10

// AddFinding counts a finding, and keeps it where there are not many of its kind.
func (r *Result) AddFinding(found core.Found, mended bool) {
	count := core.Drift{Kind: found.Kind, Found: 1}
	if mended {
		count.Mended = 1
	}
	r.addDrift(count)
	r.keepExample(found)
}

// Merge adds another unit's result.
func (r *Result) Merge(unit Result) {
	r.Checked.Add(unit.Checked)
	r.Content.Merge(unit.Content)
	r.Unread = r.Unread || unit.Unread
	for _, drift := range unit.Drift {
		r.addDrift(drift)
	}
	for _, found := range unit.Findings {
		r.keepExample(found)
	}
}

func (r *Result) addDrift(drift core.Drift) {
	at := slices.IndexFunc(r.Drift, func(known core.Drift) bool { return known.Kind == drift.Kind })
	if at < 0 {
		r.Drift = append(r.Drift, drift)
		return
	}
	r.Drift[at].Found += drift.Found
	r.Drift[at].Mended += drift.Mended
}

func (r *Result) keepExample(found core.Found) {
	known := 0
	for _, other := range r.Findings {
		if other.Kind == found.Kind {
			known++
		}
	}
	if known < Examples {
		r.Findings = append(r.Findings, found)
	}
}

// AuditClasses makes the classes again whose raw ids lie in [from, to), where an empty to means the end. It holds one
// class at a time.
func AuditClasses(ctx context.Context, in In, from Source, first, end string) (Result, error) {
	a := &auditor{In: in, fingerprint: in.Manifest.Class.Digest()}
	a.sameRules = in.Manifest.Made.ClassText == classmerge.RecipeVersion(in.Spec.Parity)
	next, stop := iter.Pull2(from.mergeRows(ctx, in.Artifacts, first, end))
	defer stop()
	a.next = next
	live, stopLive := iter.Pull2(in.Table.ClassesIn(first, end))
	defer stopLive()
	a.live = live
	a.stepClass()
	var class *classmerge.Class
	for mention, err := range from.mergeMentions(ctx, in.Artifacts, first, end) {
		if err != nil {
			return a.res, err
		}
		if class == nil || class.ID != mention.class {
			if err := a.endClass(class); err != nil {
				return a.res, err
			}
			class = classmerge.BeginClass(mention.class, in.Spec)
		}
		class.Add(mention.Mention)
		if a.res.Checked.Mentions++; a.res.Checked.Mentions%1024 == 0 {
			in.OnProgress()
		}
	}
	if err := a.endClass(class); err != nil {
		return a.res, err
	}
	if err := a.reportOrphans(""); err != nil {
		return a.res, err
	}
	a.reportMissing("")
	return a.res, nil
}

// auditor walks mentions, rows and what counts side by side: all are in the order of class ids.
type auditor struct {
	In
	fingerprint core.Digest
	sameRules   bool // names and texts were made by the rules of this program
	next        func() (artifact.Row, error, bool)
	row         artifact.Row // not looked at yet
	has         bool
	live        func() (core.ID, segments.Class, bool)
	id          core.ID // the next class that counts
	counts      segments.Class
	more        bool // there is one
	res         Result
}

// stepClass goes to the next class that counts.
func (a *auditor) stepClass() { a.id, a.counts, a.more = a.live() }

// advanceRow looks at the next row.
func (a *auditor) advanceRow() (bool, error) {
	if a.has {
		return true, nil
	}
	row, err, ok := a.next()
	if err != nil {
		return false, err
	}
	a.row, a.has = row, ok
	return ok, nil
}

// reportOrphans reports the rows before a key that no mention stands behind; of all that are left where it is empty.
func (a *auditor) reportOrphans(key string) error {
	for {
		ok, err := a.advanceRow()
		if err != nil || !ok || key != "" && string(a.row.Key) >= key {
			return err
		}
		a.reportDrift(core.DriftClass, core.ID(a.row.Key).String(), "it has a row but no mentions")
		a.reportMissing(string(a.row.Key))
		a.compareLive(core.ID(a.row.Key), nil)
		a.has = false
	}
}

// reportMissing reports the classes before a key that count and have no row.
func (a *auditor) reportMissing(key string) {
	for ; a.more && (key == "" || string(a.id[:]) < key); a.stepClass() {
		a.reportDrift(core.DriftLive, a.id.String(), "this class counts, and there is no row of it")
	}
}

// endClass compares a class that was made again with its row.
func (a *auditor) endClass(class *classmerge.Class) error {
	if class == nil {
		return nil
	}
	key := string(class.ID[:])
	made := class.End()
	a.res.Checked.Classes++
	if err := a.reportOrphans(key); err != nil {
		return err
	}
	a.reportMissing(key)
	if ok, err := a.advanceRow(); err != nil {
		return err
	} else if !ok || string(a.row.Key) != key {
		a.res.Content.Add(classmerge.Content(class.ID, made))
		a.reportDrift(core.DriftClass, class.ID.String(), "it has mentions but no row")
		return nil
	}
	stored, err := rows.DecodeClass(a.row.Value)
	if err != nil {
		return err
	}
	record, err := rows.DecodeRecord(stored.Record)
	if err != nil {
		return err
	}
	a.has = false
	if !a.sameRules { // nothing here says what else they came to, also in the content hash
		made.Name, made.Text = record.Name, stored.Text
	}
	a.res.Content.Add(classmerge.Content(class.ID, made))
	if differs := a.listDifferences(class.ID, made, stored, record); len(differs) > 0 {
		a.reportDrift(core.DriftClass, class.ID.String(),
			"its row differs from its mentions: "+strings.Join(differs, ", "))
	}
	a.compareLive(class.ID, &stored)
	return nil
}

// listDifferences names what of a row is not what the mentions come to. The text of a class that was shortened is a
// model's: of it only the row is compared.
func (a *auditor) listDifferences(id core.ID, made rows.Reduced, stored rows.Class, record rows.Record) []string {
	final := record.Text
	long := classtext.IsLong(made.Name, made.Descriptions, a.Spec.Shortening.Threshold, a.Spec.Parity)
	if a.sameRules && !long {
		final = classtext.FinalText(made.Name, made.Descriptions, "", a.Spec.Parity)
	}
	vector := embed.Digest(embed.Fit(final, a.Spec.Embedding.MaxInputTokens), a.fingerprint)
	var out []string
	for _, one := range []struct {
		what string
		same bool
	}{
		{"name", record.Name == made.Name},
		{"type", record.Type == made.Type},
		{"text digest", stored.Text == made.Text},
		{"text", record.Text == final},
		{"mentions", a.sameMentions(id, made)},
		{"vector digest", stored.Vector == vector},
	} {
		if !one.same {
			out = append(out, one.what)
		}
	}
	return out
}

// sameMentions reports whether a class is mentioned as the tables of splits say.
func (a *auditor) sameMentions(id core.ID, made rows.Reduced) bool {
	chunks, mentions := a.Table.Mentions(id)
	return chunks == made.ChunkTotal && mentions == made.Mentions
}

// compareLive compares what is said to count of a class with its row; without one, the row is not to be looked at.
func (a *auditor) compareLive(id core.ID, stored *rows.Class) {
	if !a.more || a.id != id {
		a.reportDrift(core.DriftLive, id.String(), "it has a row, and the class does not count")
		return
	}
	counts := a.counts
	a.stepClass()
	if stored == nil {
		return
	}
	if counts.Vector != stored.Vector.Prefix() || counts.Record != rows.RecordDigest(stored.Record) {
		a.reportDrift(core.DriftLive, id.String(), "the digests of its record and vector that count are not its row's")
	}
}

func (a *auditor) reportDrift(kind, object, why string) {
	a.res.AddFinding(core.Found{Kind: kind, Object: object, Why: why, Remedy: a.Artifacts.AdviseRebuild()}, false)
}

// AuditDocuments compares the chunks of a documents segment with those that count. dead says which of its rows do not;
// nil of all none.
func AuditDocuments(ctx context.Context, in In, segment core.Segment, dead func(row int) bool) (Result, error) {
	a := &auditor{In: in}
	number := -1
	for row, err := range artifact.ScanAll(ctx, in.Artifacts.Store, in.Artifacts.SegmentKey(segment.SHA256)) {
		if err != nil {
			return a.res, err
		}
		if number++; dead != nil && dead(number) {
			continue
		}
		document, err := rows.DecodeDocument(row.Value)
		if err != nil {
			return a.res, err
		}
		key := string(row.Key)
		for ordinal, chunk := range document.Chunks {
			a.res.Content.Add(core.Sum("chunk", chunk.ID.String(), key, fmt.Sprint(ordinal)))
		}
		if why := a.compareDocument(key, document.Chunks); why != "" {
			a.reportDrift(core.DriftDocument, key, why)
		}
		a.res.Checked.Documents++
		a.res.Checked.Chunks += int64(len(document.Chunks))
		in.OnProgress()
	}
	return a.res, nil
}

// compareDocument says what is said to count of a document that is otherwise; nothing where it is the same.
func (a *auditor) compareDocument(key string, chunks []rows.Place) string {
	counting, counts := a.Table.ChunksOf(key)
	if !counts {
		return "it does not count"
	}
	if len(counting) != len(chunks) {
		return fmt.Sprintf("it has %d chunks, and %d count", len(chunks), len(counting))
	}
	for ordinal, want := range chunks {
		if counting[ordinal] != (segments.Placed{ID: want.ID, Start: want.Start, End: want.End}) {
			return fmt.Sprintf("its chunk %d is not the one that counts", ordinal)
		}
	}
	return ""
}
