package corpus

import (
	"fmt"
	"strings"
	"time"
)

// Close ends the running stage in the report. done is how many of its pieces were done: all of them, unless the run
// ends in the middle.
func (s *RunState) Close(now time.Time, done int64) {
	if s.Stage == "" {
		return
	}
	if s.Total > 0 {
		done = min(done, s.Total)
	}
	closed := StageProgress{Name: s.Stage, Done: done, Total: max(s.Total, done), Seconds: s.Elapsed(now)}
	for i, earlier := range s.Report.Stages {
		if earlier.Name == s.Stage { // it was resumed
			s.Report.Stages[i] = closed
			return
		}
	}
	s.Report.Stages = append(s.Report.Stages, closed)
}

// FromManifest takes counts and hashes.
func (r *Report) FromManifest(m *Manifest) {
	r.ContentHash, r.TextHash, r.VectorHash = m.Hashes.Content.Digest().
		String(),
		m.Hashes.Text.Digest().
			String(),
		m.Hashes.Vector.Digest().
			String()
	r.Documents, r.Chunks, r.Classes, r.Mentions, r.DeadLetters = m.Counts.Documents, m.Counts.Chunks, m.Counts.Classes,
		m.Counts.Mentions, m.Counts.DeadLetters
	r.Models, r.Stale = m.Models, m.Counts.Stale
}

// Take keeps the results of an earlier report of the same run.
func (r *Report) Take(o Report) {
	r.ContentHash, r.TextHash, r.VectorHash = o.ContentHash, o.TextHash, o.VectorHash
	r.Documents, r.Chunks, r.Classes, r.Mentions, r.DeadLetters, r.Refused = o.Documents, o.Chunks, o.Classes,
		o.Mentions, o.DeadLetters, o.Refused
	r.Models, r.Diff, r.Problems, r.Published = o.Models, o.Diff, o.Problems, o.Published
	r.ProblemsTotal, r.ProblemsPath, r.Reasons = o.ProblemsTotal, o.ProblemsPath, o.Reasons
	r.DocumentsFailed, r.ChunksFailed, r.Stale = o.DocumentsFailed, o.ChunksFailed, o.Stale
}

// Markdown is report.md.
func (r Report) Markdown() string {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s %s: %s\n\n", r.Index, r.Generation, r.Status)
	if r.Reason != "" {
		fmt.Fprintf(&text, "Reason: %s. %s\n\n", r.Reason, r.Detail)
	}
	fmt.Fprintf(
		&text,
		"| documents | chunks | classes | mentions | dead letters |\n|---|---|---|---|---|\n| %d | %d | %d | %d | %d |\n\n",
		r.Documents,
		r.Chunks,
		r.Classes,
		r.Mentions,
		r.DeadLetters,
	)
	fmt.Fprintf(
		&text,
		"Against the parent: %d added, %d changed, %d moved, %d removed, %d the same, %d refused.\n\n",
		r.Diff.Added,
		r.Diff.Changed, r.Diff.Moved,
		r.Diff.Removed,
		r.Diff.Same,
		r.Refused,
	)
	if r.DocumentsFailed > 0 {
		fmt.Fprintf(&text, "Failed: %d documents; of these %d serve what was there before (stale).\n\n",
			r.DocumentsFailed, r.Stale)
	}
	fmt.Fprintf(
		&text,
		"Paid: %d extract, %d shorten, %d embed calls; %d prompt, %d completion, %d embedding tokens; cost %.4f. "+
			"From the ledger: %d, %d, %d.\n\n",
		r.Calls.Extract,
		r.Calls.Shorten,
		r.Calls.Embed,
		r.Tokens.Prompt,
		r.Tokens.Completion,
		r.Tokens.Embedding,
		r.Cost,
		r.LedgerHits.Extract,
		r.LedgerHits.Shorten,
		r.LedgerHits.Embed,
	)
	if lost := r.Unsettled; lost.Calls.Sum() > 0 {
		fmt.Fprintf(&text, "Sent, and perhaps paid for, without a counted answer, and not in the above: "+
			"%d extract, %d shorten, %d embed calls; about %d prompt, %d completion, %d embedding tokens; cost %.4f.\n\n",
			lost.Calls.Extract, lost.Calls.Shorten, lost.Calls.Embed, lost.Tokens.Prompt, lost.Tokens.Completion,
			lost.Tokens.Embedding, lost.Cost)
	}
	text.WriteString("| stage | done | seconds |\n|---|---|---|\n")
	for _, s := range r.Stages {
		fmt.Fprintf(&text, "| %s | %d | %.1f |\n", s.Name, s.Done, s.Seconds)
	}
	fmt.Fprintf(&text, "\nContent hash %s\n", r.ContentHash)
	for i, problem := range r.Problems {
		if i == 0 {
			text.WriteString("\nProblems:\n\n")
		}
		fmt.Fprintf(&text, "* %s %s: %s\n", problem.Code, problem.Object, problem.Detail)
	}
	return text.String()
}

// Sum is the number of calls of all tasks.
func (c Calls) Sum() int64 { return c.Extract + c.Shorten + c.Embed }

// Plus adds calls by task.
func (c Calls) Plus(other Calls) Calls {
	return Calls{c.Extract + other.Extract, c.Shorten + other.Shorten, c.Embed + other.Embed}
}

// Count adds n calls of a task; tasks that builds do not have are not counted.
func (c *Calls) Count(task string, n int64) {
	switch task {
	case "extract":
		c.Extract += n
	case "shorten":
		c.Shorten += n
	case "embed":
		c.Embed += n
	}
}

// Of is the number of a task; 0 of tasks that builds do not have.
func (c Calls) Of(task string) int64 {
	switch task {
	case "extract":
		return c.Extract
	case "shorten":
		return c.Shorten
	case "embed":
		return c.Embed
	}
	return 0
}
