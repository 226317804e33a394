package chunk

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/docling"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
)

// MetaParser is the metadata of a document that another program parsed: its name.
const MetaParser = "parser"

// errUnasked keeps an estimate from asking.
var errUnasked = errors.New("an estimate asks no server")

// convertsKind reports whether a server parses objects of a type. What is attached to them it does not see.
func (b *builder) convertsKind(kind document.Kind, asked document.Reading) bool {
	return b.Converter != nil && asked.Part.Name == "" && slices.Contains(b.Spec.ReadAs().Parser.Kinds, string(kind))
}

// parseFile parses a file by the server that is configured for its type, where that can: once, as the ledger keeps what
// it made of it. This program parses all others; of a file that the server failed on the document says so, and the next
// run asks again.
func (b *builder) parseFile(
	ctx context.Context, plain io.Reader, file held, object string, d *draft,
) (document.Doc, error) {
	var failed error
	if b.convertsKind(file.kind, file.asked) && len(file.raw) > 0 {
		text, err := b.convertFile(ctx, file, object, d)
		if err == nil {
			return document.Doc{
				Text: strings.NewReader(text), Meta: map[string]string{MetaParser: b.Spec.ReadAs().Parser.Provider},
			}, nil
		}
		if ctx.Err() != nil || fault.KindOf(err) != fault.Content {
			return document.Doc{}, err
		}
		failed = err
	}
	doc, err := b.Parser.Parse(document.WithReading(ctx, file.asked), plain, file.kind, object)
	if failed != nil && !errors.Is(failed, errUnasked) && err == nil {
		if d.row.Untranscribed = 2; errors.Is(failed, docling.ErrFile) {
			d.row.Untranscribed = 1
		}
		doc.Missing = document.JoinMissing(doc.Missing, failed.Error()+"; UnWeaver's own parser read it")
	}
	return doc, err
}

// convertFile returns what a server makes of a file.
func (b *builder) convertFile(ctx context.Context, file held, object string, d *draft) (text string, err error) {
	settings, digest := b.Spec.ReadAs().Parser, core.Digest(sha256.Sum256(file.raw))
	key := ledger.ScopeKey(settings.Domain(), ledger.Key(
		ledger.Parse, docling.Form, settings.Provider, settings.Version, string(file.kind), digest.String()))
	var entry *ledger.Entry
	err = b.awayFromCore(ctx, func() error {
		entry, _, err = b.Ledger.Do(ctx, ledger.Parse, key, 0, func(ctx context.Context) (ledger.Result, error) {
			if b.Unasked {
				return ledger.Result{}, fault.Unreadable.At("parse", object).Because(errUnasked)
			}
			if b.down != nil {
				return ledger.Result{}, b.down
			}
			said, err := b.Converter.Convert(ctx, object, file.raw, b.reportProgress)
			b.reportProgress()
			if b.countMiss(err); err != nil {
				return ledger.Result{}, err
			}
			raw, err := json.Marshal(said)
			return ledger.Result{Value: raw}, err
		})
		return err
	})
	if err != nil {
		return "", err
	}
	d.row.Parsed = key
	if json.Unmarshal(entry.Value, &text) != nil {
		return "", fault.SegmentDamage.At("read ledger entry of", ledger.Parse).Because("it is no text")
	}
	if !file.kind.HasPages() {
		text = strings.ReplaceAll(text, "\n\f\n", "\n\n")
	}
	if int64(len(text)) > b.Limits.WithDefaults().Text {
		return "", fault.Unreadable.At("parse", object).
			Because(fmt.Errorf("%w: its text is above limits.document.text", docling.ErrFile))
	}
	return text, nil
}

// mostMisses is how many files in a row a server may fail on before a unit leaves it: one may be the file's fault.
const mostMisses = 2

// countMiss decides from what came of a file whether the rest of the unit asks the server.
func (b *builder) countMiss(err error) {
	if err == nil || errors.Is(err, docling.ErrFile) {
		b.misses = 0
		return
	}
	if b.misses++; b.misses == mostMisses || errors.Is(err, docling.ErrDown) {
		b.down = err
	}
}
