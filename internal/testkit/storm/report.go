package storm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/workflows"
)

// Result of a storm.
type Result struct {
	Kills  []Kill         `json:"kills"`
	Left   map[string]int `json:"left"` // kills that were wanted and not done
	Paid   int64          `json:"chat_paid"`
	Twice  int64          `json:"chat_paid_twice"`
	Texts  int64          `json:"texts_paid_twice"`
	Nights []Night        `json:"nights"`
}

// keep adds up what was paid twice.
func (r *Result) keep(stats modeltest.Stats) {
	r.Paid += stats.Chat
	r.Twice += stats.Duplicates
	r.Texts += stats.EmbedTwice
}

// Join puts the results of storms that ran side by side together.
func Join(results ...Result) (all Result) {
	all.Left = map[string]int{}
	for _, result := range results {
		all.Kills = append(all.Kills, result.Kills...)
		all.Nights = append(all.Nights, result.Nights...)
		all.Paid += result.Paid
		all.Twice += result.Twice
		all.Texts += result.Texts
		for activity, left := range result.Left {
			all.Left[activity] += max(0, left)
		}
	}
	return all
}

// InFlight returns how many answers and texts were in flight at the kills: what may be paid twice.
func (r Result) InFlight() (chat, texts int64) {
	for _, kill := range r.Kills {
		chat += kill.Chat
		texts += kill.Texts
	}
	return chat, texts
}

// Bound returns what may be paid twice, where so many calls may be in flight at once: what was in flight at each kill
// that hit paid work, asked of the model still, or answered and not stored yet. The questions that each night is asked
// are embedded by a process that knows nothing of those before.
func (r Result) Bound(flight int64) (chat, texts int64) {
	texts = int64(len(questions) * len(r.Nights))
	for _, kill := range r.Kills {
		if kill.Hit[workflows.ExtractChunks]+kill.Hit[workflows.ShortenPartition] > 0 {
			chat += 2 * flight // a disk that is slower than the model keeps as many answers waiting
		}
		if kill.Hit[workflows.ChunkDocuments] > 0 { // with the first unit's chunks it is seen whether models answer
			chat++
			texts++
		}
		if kill.Hit[workflows.EmbedPart] > 0 {
			texts += flight * embed.MaxItems
		}
	}
	return chat, texts
}

// Hits counts the kills that hit a kind of activity.
func (r Result) Hits(activity string) (n int) {
	for _, kill := range r.Kills {
		if kill.Hit[activity] > 0 {
			n++
		}
	}
	return n
}

// Worst returns the longest time from a restart until work went on.
func (r Result) Worst() (worst float64) {
	for _, kill := range r.Kills {
		worst = max(worst, kill.Progress)
	}
	return worst
}

// Table returns the result in Markdown, a row for each kind of activity.
func (r Result) Table() string {
	var table strings.Builder
	fmt.Fprintln(&table, "| stage | activity | kills that hit it | of them in flight (median s) | "+
		"ready again (median s) | work goes on (median s) | at most (s) |")
	fmt.Fprintln(&table, "|---|---|---:|---:|---:|---:|---:|")
	row := func(stage, activity string, kills []Kill) {
		var lasted, ready, progress []float64
		for _, kill := range kills {
			lasted, ready = append(lasted, kill.Lasted), append(ready, kill.Ready)
			progress = append(progress, kill.Progress)
		}
		fmt.Fprintf(&table, "| %s | %s | %d | %.3f | %.1f | %.1f | %.1f |\n", stage, activity, len(kills),
			middle(lasted), middle(ready), middle(progress), most(progress))
	}
	for _, activity := range Activities {
		var hit []Kill
		for _, kill := range r.Kills {
			if kill.Hit[activity] > 0 {
				hit = append(hit, kill)
			}
		}
		row(stages[activity], activity, hit)
	}
	var missed []Kill
	for _, kill := range r.Kills {
		if len(kill.Hit) == 0 {
			missed = append(missed, kill)
		}
	}
	row("", "nothing in flight", missed)
	row("", "all", r.Kills)
	chat, texts := r.InFlight()
	fmt.Fprintf(&table, "\npaid twice: %d answers, %d in flight at the kills; %d texts embedded, %d in flight\n",
		r.Twice, chat, r.Texts, texts)
	return table.String()
}

// Write writes the result as JSON and as Markdown into a folder.
func (r Result) Write(folder, name string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(folder, name+".json"), raw, 0o600),
		os.WriteFile(filepath.Join(folder, name+".md"), []byte(r.Table()), 0o600))
}

func middle(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(of))[len(of)/2]
}

func most(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	return slices.Max(of)
}

// questions that an index of Documents answers.
var questions = []string{"Who repaired the harbour crane at Oban?", "Ada Merrow and Joris Quarrie measured the tides"}

// Ask gives the chunks of the index's answers, in order, once it answers.
func Ask(ctx context.Context, base, index string) (chunks []string, err error) {
	for _, question := range questions {
		var answer []string
		for begun := time.Now(); time.Since(begun) < 20*time.Second; time.Sleep(100 * time.Millisecond) {
			if answer, err = ask(ctx, base, index, question); err == nil {
				break
			}
		}
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, answer...)
	}
	return chunks, nil
}

func ask(ctx context.Context, base, index, question string) ([]string, error) {
	body, err := json.Marshal(map[string]any{"query": question})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(
		ctx, http.MethodPost, base+"/v1/indexes/"+index+"/query", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Chunks []struct {
			ID string `json:"id"`
		} `json:"chunks"`
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("query: %s", response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	var ids []string
	for _, chunk := range answer.Chunks {
		ids = append(ids, chunk.ID)
	}
	if len(ids) == 0 {
		return nil, errors.New("query: no chunks")
	}
	return ids, nil
}
