// Package shorten brings long class texts under the threshold (specs/unweaver.md §3.5). A text is cut at mentions into
// blocks, by content, so that a new mention changes one block; each block is shortened on its own ledger key, then what
// they give is shortened once more. A failed call falls back to the start of the text, cut at a sentence.
package shorten

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/lang/classtext"
	"github.com/unweaver/unweaver/internal/lang/text"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/stream/par"
)

// Prompt is the version of the shortening prompt.
// shorten/1: first form.
const Prompt = "shorten/1"

// SchemaVersion of the answer.
const SchemaVersion = "description/1"

const system = `You are given the name of an entity and a long text made of descriptions of it from many sources.
Write one coherent, brief description of the entity in plain prose. Keep what identifies it, its function, its relations to other things, and facts, dates and figures; drop repetition.
Answer with JSON only: {"description":"..."}`

var schema = json.RawMessage(
	`{"type":"object","properties":{"description":{"type":"string"}},"required":["description"],"additionalProperties":false}`,
)

// In is what one partition works on. OnProgress is told of classes done.
type In struct {
	Spec       corpus.Spec
	Artifacts  artifact.Index
	Scratch    string
	Partition  int
	Source     string // the reduced rows
	Attempt    int
	Chat       model.Chat
	Ledger     *ledger.Ledger
	OnProgress func(corpus.Progress)
}

// Result of a partition.
type Result struct {
	Classes  int64           `json:"classes"`
	Progress corpus.Progress `json:"progress"`
}

// Key is the scratch file of a partition: long classes only.
func Key(scratch string, partition int) string {
	return fmt.Sprintf("%s/short-%03d.rows", scratch, partition)
}

type stage struct {
	In
	mu  sync.Mutex
	res Result
}

type job struct {
	id    corpus.ID
	name  string
	descs []string
}

// width bounds the classes of one partition in flight.
const width = 16

// Run does one partition.
func Run(ctx context.Context, in In) (Result, error) {
	s := &stage{In: in}
	s.res.Progress.Stage = "shorten"
	w, err := artifact.NewRows()
	if err != nil {
		return s.res, err
	}
	defer w.Discard()
	type done struct {
		id  corpus.ID
		out rows.Short
	}
	src := func(yield func(job, error) bool) {
		for row, err := range artifact.ScanAll(ctx, in.Artifacts.Store, in.Source) {
			if err != nil {
				yield(job{}, err)
				return
			}
			reduced, err := rows.DecodeReduced(row.Value)
			if err == nil &&
				!classtext.Long(reduced.Name, reduced.Descriptions, in.Spec.Shortening.Threshold, in.Spec.Parity) {
				continue
			}
			if !yield(job{corpus.ID(row.Key), reduced.Name, reduced.Descriptions}, err) || err != nil {
				return
			}
		}
	}
	for d, err := range par.Ordered(ctx, width, src, func(ctx context.Context, j job) (done, error) {
		out, err := s.class(ctx, j)
		return done{j.id, out}, err
	}) {
		if err != nil {
			return s.res, err
		}
		w.Append(string(d.id[:]), d.out.Encode())
		s.res.Classes++
		s.mu.Lock()
		s.res.Progress.Done++
		in.OnProgress(s.res.Progress)
		s.mu.Unlock()
	}
	return s.res, w.Scratch(ctx, in.Artifacts.Store, Key(in.Scratch, in.Partition))
}

// Blocks are this long, in runes: small enough for a model's window, large enough to be few.
const (
	blockMin = 8_000
	blockMax = 24_000
)

// Blocks cuts descriptions at mentions chosen by their content.
func Blocks(descs []string) [][]string {
	var out [][]string
	var cur []string
	n := 0
	for _, d := range descs {
		l := utf8.RuneCountInString(d)
		if n > 0 && n+l > blockMax {
			out, cur, n = append(out, cur), nil, 0
		}
		cur = append(cur, d)
		n += l
		h := fnv.New32a()
		_, _ = h.Write([]byte(d)) // never fails
		if n >= blockMin && h.Sum32()%8 == 0 {
			out, cur, n = append(out, cur), nil, 0
		}
	}
	if cur != nil {
		out = append(out, cur)
	}
	return out
}

// class shortens one class.
func (s *stage) class(ctx context.Context, j job) (rows.Short, error) {
	limit := s.Spec.Shortening.Threshold
	var out rows.Short
	var parts []string
	blocks := Blocks(j.descs)
	for _, b := range blocks {
		t, key, err := s.text(ctx, j.name, strings.Join(b, " "))
		if err != nil {
			return out, err
		}
		parts = append(parts, t)
		out.Keys = append(out.Keys, key...)
	}
	out.Text = strings.Join(parts, " ")
	if len(blocks) > 1 && utf8.RuneCountInString(out.Text) > limit/2 {
		t, key, err := s.text(ctx, j.name, out.Text)
		if err != nil {
			return out, err
		}
		out.Text = t
		out.Keys = append(out.Keys, key...)
	}
	out.Text = Truncate(out.Text, limit)
	return out, nil
}

type value struct {
	Description string      `json:"description"`
	Usage       model.Usage `json:"usage"`
	Reason      string      `json:"reason,omitempty"`
}

// text shortens one block through the ledger.
func (s *stage) text(ctx context.Context, name, long string) (string, []corpus.Digest, error) {
	call := model.Call{
		Task:   model.Shorten,
		System: system,
		User:   "Name: " + name + "\n\nDescriptions:\n" + long,
		Schema: schema,
		Input:  long,
		Name:   name,
		Limit:  s.Spec.Shortening.Threshold,
	}
	info := s.Chat.Info()
	var v value
	var used model.Usage
	calls := int64(0)
	pay := func(ctx context.Context) (ledger.Result, error) {
		var err error
		if v, calls, err = s.ask(ctx, call); err != nil {
			return ledger.Result{}, err
		}
		used = v.Usage
		b, err := json.Marshal(v)
		return ledger.Result{Value: b, Negative: v.Reason != ""}, err
	}
	if !info.Paid {
		_, err := pay(ctx)
		return orStart(v.Description, long, s.Spec.Shortening.Threshold), nil, err
	}
	key := ledger.Key(ledger.Shorten, Prompt, info.Model, info.Parameters, SchemaVersion, name+"\x00"+long)
	entry, fresh, err := s.Ledger.Do(ctx, ledger.Shorten, key, s.Attempt, pay)
	s.account(fresh, calls, used)
	if err != nil {
		return "", nil, err
	}
	if err := json.Unmarshal(entry.Value, &v); err != nil {
		return "", nil, fault.SegmentDamage.At("read ledger entry", key.String()).
			Because(err).
			Advise("delete the entry under ledger/shorten/loose")
	}
	return orStart(v.Description, long, s.Spec.Shortening.Threshold), []corpus.Digest{key}, nil
}

func orStart(description, long string, limit int) string {
	if description == "" {
		return Truncate(long, limit)
	}
	return description
}

func (s *stage) account(fresh bool, calls int64, usage model.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	progress := &s.res.Progress
	if !fresh && calls == 0 {
		progress.Hits.Shorten++
		return
	}
	progress.Calls.Shorten += calls
	progress.Tokens.Prompt += usage.Prompt
	progress.Tokens.Completion += usage.Completion
	progress.Cost += (float64(usage.Prompt)*s.Spec.Chat.Price.Prompt + float64(usage.Completion)*s.Spec.Chat.Price.Completion) / 1e6
}

// ask calls the model, and once more when the answer holds no description.
func (s *stage) ask(ctx context.Context, call model.Call) (v value, calls int64, err error) {
	for try := range 2 {
		c := call
		if try == 1 {
			c.User += "\n\nAnswer again with nothing but {\"description\":\"...\"}."
		}
		var reply model.Reply
		err = retry.Do(ctx, func(ctx context.Context) error {
			var err error
			reply, err = s.Chat.Complete(ctx, c)
			return err
		})
		if err != nil {
			if fault.KindOf(err) == fault.Content {
				v.Reason = string(fault.CodeOf(err))
				return v, calls, nil
			}
			return v, calls, err
		}
		calls++
		v.Usage.Prompt += reply.Usage.Prompt
		v.Usage.Completion += reply.Usage.Completion
		if v.Description = parse(reply.Text); v.Description != "" {
			return v, calls, nil
		}
	}
	v.Reason = string(fault.BadOutput)
	return v, calls, nil
}

// parse accepts {"description": string} and a bare list of one string (DESIGN §8), with anything around it.
func parse(t string) string {
	i := strings.IndexAny(t, "{[")
	if i < 0 {
		return ""
	}
	d := json.NewDecoder(strings.NewReader(t[i:]))
	var raw json.RawMessage
	if d.Decode(&raw) != nil {
		return ""
	}
	var o struct {
		Description string `json:"description"`
	}
	if json.Unmarshal(raw, &o) == nil && o.Description != "" {
		return strings.TrimSpace(o.Description)
	}
	var l []string
	if json.Unmarshal(raw, &l) == nil && len(l) > 0 {
		return strings.TrimSpace(l[0])
	}
	return ""
}

// Truncate cuts a text to limit runes, at the end of a sentence where there is one in the second half, else of a word.
func Truncate(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	r := string([]rune(s)[:limit])
	n := 0
	for _, x := range text.Sentences(r) {
		if n+len(x) >= len(r) {
			break
		}
		n += len(x)
	}
	if n > len(r)/2 {
		return strings.TrimSpace(r[:n])
	}
	if i := strings.LastIndexByte(r, ' '); i > 0 {
		return r[:i]
	}
	return r
}
