package collect

import (
	"context"
	"iter"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
)

// ListKeys gives the ledger keys of a task that generations of these indexes list, some of them more than once. Every
// generation that is there counts, also one that is marked as collected. Anything that cannot be read is an error: a
// key that is left out would be dropped. Files of enrichments list the keys that these were made from. Of embeddings
// the keys are the digests of texts: the row of a class has its own, those of chunks are made from the chunks again.
func ListKeys(ctx context.Context, indexes []artifact.Index, task string) iter.Seq2[core.Digest, error] {
	return func(yield func(core.Digest, error) bool) {
		for _, index := range indexes {
			segments, lists, domains, err := listingSegments(ctx, index, task)
			if err != nil {
				yield(core.Digest{}, err)
				return
			}
			each := func(key core.Digest, err error) bool { // a text, in every domain that it may be paid for in
				for _, domain := range domains {
					if err == nil && !yield(ledger.ScopeKey(domain, key), nil) {
						return false
					}
				}
				return yield(key, err)
			}
			for _, key := range segments {
				for row, err := range artifact.ScanAll(ctx, index.Store, key) {
					var keys []core.Digest
					if err == nil {
						keys, err = rowKeys(row.Value, task)
					}
					if err != nil {
						yield(core.Digest{}, err)
						return
					}
					for _, k := range keys {
						if !k.IsZero() && !each(k, nil) {
							return
						}
					}
				}
			}
			for _, list := range lists {
				for row, err := range artifact.ScanAll(ctx, index.Store, list) {
					var of string
					var key core.Digest
					if err == nil {
						of, key, err = ledger.ReadLine(row.Key)
					}
					if err != nil {
						yield(core.Digest{}, err)
						return
					}
					if of == task && !yield(key, nil) {
						return
					}
				}
			}
			if task != ledger.Embed {
				continue
			}
			for key, err := range embeddedChunks(ctx, index) {
				if !each(key, err) || err != nil {
					return
				}
			}
		}
	}
}

// listManifests gives the manifests of an index that count.
func listManifests(ctx context.Context, index artifact.Index) ([]*core.Manifest, error) {
	refs, err := index.ListByName(ctx)
	if err != nil {
		return nil, err
	}
	var out []*core.Manifest
	for _, ref := range refs {
		manifest, err := index.Manifest(ctx, ref.Manifest)
		if err != nil {
			return nil, err
		}
		out = append(out, manifest)
	}
	return out, nil
}

// listingSegments returns the segments of an index whose rows list keys of a task, and those that list what enrichments
// were made from, each once, and the trust domains of keys that rows of the former hold without.
func listingSegments(
	ctx context.Context, index artifact.Index, task string,
) (out, lists, domains []string, err error) {
	manifests, err := listManifests(ctx, index)
	if err != nil {
		return nil, nil, nil, err
	}
	seen := map[string]bool{}
	for _, manifest := range manifests {
		trust := manifest.Trust
		if task == ledger.Embed && trust != nil && trust.Embedding != "" && !slices.Contains(domains, trust.Embedding) {
			domains = append(domains, trust.Embedding)
		}
		var segments []core.Segment
		switch task {
		case ledger.Extract:
			segments = manifest.Segments.Extract
		case ledger.Shorten, ledger.Embed:
			segments = manifest.Segments.Classes
		case ledger.Transcribe, ledger.Parse:
			segments = manifest.Segments.Documents
		}
		for _, file := range manifest.Segments.Enriched {
			if file.Kind == core.EnrichedLedger && !seen[file.SHA256] {
				seen[file.SHA256] = true
				lists = append(lists, index.SegmentKey(file.SHA256))
			}
		}
		for _, segment := range segments {
			if !seen[segment.SHA256] {
				seen[segment.SHA256] = true
				out = append(out, index.SegmentKey(segment.SHA256))
			}
		}
	}
	return out, lists, domains, nil
}

func rowKeys(value []byte, task string) ([]core.Digest, error) {
	if task == ledger.Extract {
		extract, err := rows.DecodeExtract(value)
		return []core.Digest{extract.Key}, err
	}
	if task == ledger.Transcribe || task == ledger.Parse {
		document, err := rows.DecodeDocument(value)
		if task == ledger.Parse {
			return []core.Digest{document.Parsed}, err
		}
		return document.Transcribed, err
	}
	class, err := rows.DecodeClass(value)
	if task == ledger.Embed {
		return []core.Digest{class.Vector}, err
	}
	return class.Keys, err
}
