// Package shorten brings long class texts below the threshold. It cuts a text into blocks at mentions, chosen by
// content, so that a new mention changes one block. It shortens each block under a ledger key of its own, and then
// shortens the results together. Where the model gives nothing of use, the result is the start of the text, cut after a
// sentence.
package shorten

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/limits"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/classtext"
)

// SchemaVersion of the answer.
const SchemaVersion = "description/1"

const reminder = "\n\nAnswer again with nothing but {\"description\":\"...\"}."

// Versions of the prompts; part of ledger keys.
const (
	version       = "shorten/1"
	parityVersion = "shorten/parity/1"
)

const system = `You are given the name of an entity and a long text made of descriptions of it from many sources.
Write one coherent, brief description of the entity in plain prose. Keep what identifies it, its function, its ` +
	`relations to other things, and facts, dates and figures; drop repetition.
Answer with JSON only: {"description":"..."}`

// before stands in front of name and text under parity: the reference's job in other words, all of it in one message.
const before = `Below are the name of an entity and what many texts say of it, one after the other.
Make one short description of it that hangs together.
Answer with JSON only: {"description":"..."}` + model.TextFollows

// mostWhole is how long a text may be that is shortened in one call, in tokens: 95 % of the reference's window.
const mostWhole = 31_129

var schema = json.RawMessage(
	`{"type":"object","properties":{"description":{"type":"string"}},` +
		`"required":["description"],"additionalProperties":false}`,
)

// In is what one partition works on. OnProgress receives classes done and ledger entries that answered; nil is
// allowed.
type In struct {
	Spec       core.Spec
	Artifacts  artifact.Index
	Scratch    string
	Partition  int
	Source     string // the reduced rows
	Attempt    int
	Chat       model.Chat
	Health     *stage.Health // of Chat, over the units of the run; nil is allowed
	Ledger     *ledger.Ledger
	OnProgress func(core.Progress)
}

// Result of a partition.
type Result struct {
	Classes  int64         `json:"classes"`
	Progress core.Progress `json:"progress"`
	Rows     string        `json:"rows,omitempty"` // name of the file at Key; see artifact.ScratchKey
}

// Key returns the scratch file of a partition: long classes only.
func Key(scratch string, partition int) string {
	return fmt.Sprintf("%s/short-%03d.rows", scratch, partition)
}

type shortener struct {
	In
	round stage.Round
	mu    sync.Mutex
	res   Result
}

// class is one class that is too long.
type class struct {
	id           core.ID
	name         string
	descriptions []string
}

// shortened is what became of it.
type shortened struct {
	id  core.ID
	row rows.Short
}

// Classes of one partition in flight. How much is asked of the model at once is the gate's matter: a partition must
// only not be what holds it back, since a corpus with few long classes has them in few partitions.
const (
	leastWidth = 16
	mostWidth  = 512
)

// countFlights returns how many classes are in flight: as many as calls are allowed.
func (s *shortener) countFlights() int {
	allowed := s.Spec.LimitsOf(core.RoleShortening).Concurrency
	return min(max(limits.Concurrency(allowed), leastWidth), mostWidth)
}

// Run does one partition. Result.Progress counts classes done and ledger entries that answered, also when it fails.
func Run(ctx context.Context, in In) (Result, error) {
	s := &shortener{In: in, round: in.Health.BeginRound()}
	s.res.Progress.Stage = "shorten"
	out, err := artifact.NewRows()
	if err != nil {
		return s.res, err
	}
	defer out.Discard()
	var failed error // returned behind the loop, which waits for the classes in flight
	for short, err := range parallel.MapOrdered(ctx, s.countFlights(), s.streamLong(ctx), s.shortenClass) {
		if err != nil {
			failed = err
			break
		}
		out.Append(string(short.id[:]), short.row.Encode())
		s.mu.Lock()
		s.res.Classes++
		s.res.Progress.Done++
		stage.ReportProgress(in.OnProgress, s.res.Progress)
		s.mu.Unlock()
	}
	if failed != nil {
		return s.res, failed
	}
	s.res.Rows, err = out.PutScratch(ctx, in.Artifacts, Key(in.Scratch, in.Partition))
	return s.res, err
}

// streamLong streams the classes of the partition that are too long.
func (s *shortener) streamLong(ctx context.Context) iter.Seq2[class, error] {
	return func(yield func(class, error) bool) {
		for row, err := range artifact.ScanAll(ctx, s.Artifacts.Store, s.Source) {
			if err != nil {
				yield(class{}, err)
				return
			}
			reduced, err := rows.DecodeReduced(row.Value)
			if err == nil &&
				!classtext.IsLong(reduced.Name, reduced.Descriptions, s.Spec.Shortening.Threshold, s.Spec.Parity) {
				continue
			}
			if !yield(class{core.ID(row.Key), reduced.Name, reduced.Descriptions}, err) || err != nil {
				return
			}
		}
	}
}

// Blocks are this long, in runes: small enough for a model's window, large enough to be few.
const (
	blockMin = 8_000
	blockMax = 24_000
)

// Blocks cuts descriptions at mentions chosen by their content.
func Blocks(descriptions []string) [][]string {
	var out [][]string
	var block []string
	size := 0
	for _, description := range descriptions {
		runes := utf8.RuneCountInString(description)
		if size > 0 && size+runes > blockMax {
			out, block, size = append(out, block), nil, 0
		}
		block = append(block, description)
		size += runes
		h := fnv.New32a()
		_, _ = h.Write([]byte(description)) // never fails
		if size >= blockMin && h.Sum32()%8 == 0 {
			out, block, size = append(out, block), nil, 0
		}
	}
	if block != nil {
		out = append(out, block)
	}
	return out
}

// shortenClass shortens one class.
func (s *shortener) shortenClass(ctx context.Context, long class) (shortened, error) {
	limit := s.Spec.Shortening.Threshold
	out := shortened{id: long.id}
	if s.Spec.Parity { // one call on the whole text, and what comes of it is taken as it is
		whole := embed.Fit(strings.Join(long.descriptions, " "), mostWhole)
		var err error
		out.row.Text, out.row.Keys, err = s.shortenBlock(ctx, long.name, whole)
		return out, err
	}
	blocks := Blocks(long.descriptions)
	parts := make([]string, len(blocks))
	keys := make([][]core.Digest, len(blocks))
	if err := parallel.Each(ctx, len(blocks), len(blocks), func(ctx context.Context, i int) (err error) {
		parts[i], keys[i], err = s.shortenBlock(ctx, long.name, strings.Join(blocks[i], " "))
		return err
	}); err != nil {
		return out, err
	}
	out.row.Keys = slices.Concat(keys...)
	out.row.Text = strings.Join(parts, " ")
	if len(blocks) > 1 && utf8.RuneCountInString(out.row.Text) > limit/2 {
		whole, keys, err := s.shortenBlock(ctx, long.name, out.row.Text)
		if err != nil {
			return out, err
		}
		out.row.Text = whole
		out.row.Keys = append(out.row.Keys, keys...)
	}
	out.row.Text = Truncate(out.row.Text, limit)
	return out, nil
}

// value is a ledger entry.
type value struct {
	Description string      `json:"description"`
	Usage       model.Usage `json:"usage"`
	Reason      string      `json:"reason,omitempty"` // of a negative entry
}

// shortenBlock shortens one block, and gives the keys of what was paid for.
func (s *shortener) shortenBlock(ctx context.Context, name, long string) (string, []core.Digest, error) {
	info := s.Chat.Info()
	if !info.Paid {
		answer, err := s.askModel(ctx, name, long)
		return s.orStart(answer.Value, long), nil, err
	}
	_, language := model.NameLanguage(s.Spec.WritingLanguage(), long)
	prompt := version + language
	if s.Spec.Parity {
		prompt = parityVersion
	}
	key := ledger.Key(ledger.Shorten, prompt, info.Model, info.Parameters, SchemaVersion, name+"\x00"+long)
	key = ledger.ScopeKey(info.Domain, key)
	var found value
	fresh, passing, err := stage.RecallOrAsk(ctx, s.Ledger, ledger.Shorten, key, s.Attempt,
		func(ctx context.Context) (stage.Answer[string], error) { return s.askModel(ctx, name, long) },
		func(answer stage.Answer[string]) value {
			return value{Description: answer.Value, Usage: answer.Usage, Reason: answer.Reason}
		}, &found)
	switch {
	case err != nil:
		return "", nil, err
	case passing: // the next run asks again
		return s.orStart("", long), nil, nil
	case !fresh:
		s.mu.Lock()
		s.res.Progress.Hits.Shorten++
		s.mu.Unlock()
	}
	return s.orStart(found.Description, long), []core.Digest{key}, nil
}

// orStart returns a description, cut where it is longer than any block, or the start of the text where there is none.
func (s *shortener) orStart(description, long string) string {
	limit := s.Spec.Shortening.Threshold
	if description == "" && s.Spec.Parity {
		return string([]rune(long)[:min(limit, utf8.RuneCountInString(long))])
	}
	if description == "" {
		return Truncate(long, limit)
	}
	if most := max(blockMax, limit); utf8.RuneCountInString(description) > most {
		return string([]rune(description)[:most])
	}
	return description
}

// askModel calls the model, and once more when the answer holds no description. A failure passes as long as no item
// came to something.
func (s *shortener) askModel(ctx context.Context, name, long string) (stage.Answer[string], error) {
	if err := s.round.CheckEnd(); err != nil {
		return stage.Answer[string]{}, err
	}
	sentence, _ := model.NameLanguage(s.Spec.WritingLanguage(), long)
	call := model.Call{
		Task:   model.Shorten,
		System: system + sentence,
		User:   "Name: " + name + "\n\nDescriptions:\n" + long,
		Schema: schema,
		Input:  long,
		Name:   name,
		Limit:  s.Spec.Shortening.Threshold,
	}
	if s.Spec.Parity {
		call.System, call.User = "", before+"Name: "+name+"\n\nDescriptions:\n"+long
	}
	answer, err := stage.Ask(ctx, s.Chat, call, reminder, func(text string) (string, bool) {
		description := parseAnswer(text)
		return description, description != ""
	}, s.Health)
	answer.Passing = answer.Passing || !s.round.IsProven()
	return answer, err
}

// maxAnswer is how long an answer may be, in bytes; a longer one is not read.
const maxAnswer = 1 << 20

// parseAnswer accepts {"description": string} and a bare list of one string, with anything around it.
func parseAnswer(answer string) string {
	if len(answer) > maxAnswer {
		return ""
	}
	i := strings.IndexAny(answer, "{[")
	if i < 0 {
		return ""
	}
	var raw json.RawMessage
	if json.NewDecoder(strings.NewReader(answer[i:])).Decode(&raw) != nil {
		return ""
	}
	var object struct {
		Description string `json:"description"`
	}
	if json.Unmarshal(raw, &object) == nil && object.Description != "" {
		return strings.TrimSpace(object.Description)
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		return strings.TrimSpace(list[0])
	}
	return ""
}

// Truncate cuts a text to limit runes, at the end of a sentence where there is one in the second half, else of a word.
func Truncate(long string, limit int) string {
	if utf8.RuneCountInString(long) <= limit {
		return long
	}
	start := string([]rune(long)[:limit])
	whole := 0
	for _, sentence := range text.Sentences(start) {
		if whole+len(sentence) >= len(start) {
			break
		}
		whole += len(sentence)
	}
	if whole > len(start)/2 {
		return strings.TrimSpace(start[:whole])
	}
	if i := strings.LastIndexByte(start, ' '); i > 0 {
		return start[:i]
	}
	return start
}
