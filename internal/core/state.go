package core

import (
	"slices"
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
	closed := StageProgress{Name: s.Stage, Done: done, Total: max(s.Total, done), Seconds: s.StageSeconds(now)}
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
	r.ContentHash = m.Hashes.Content.Digest().String()
	r.TextHash = m.Hashes.Text.Digest().String()
	r.VectorHash = m.Hashes.Vector.Digest().String()
	r.Documents, r.Chunks, r.Classes, r.Mentions, r.DeadLetters = m.Counts.Documents, m.Counts.Chunks, m.Counts.Classes,
		m.Counts.Mentions, m.Counts.DeadLetters
	r.Models, r.Stale, r.Enriched = m.Models, m.Counts.Stale, m.Enriched
}

// TakeResults keeps the results of an earlier report of the same run.
func (r *Report) TakeResults(o Report) {
	r.ContentHash, r.TextHash, r.VectorHash = o.ContentHash, o.TextHash, o.VectorHash
	r.Documents, r.Chunks, r.Classes, r.Mentions, r.DeadLetters, r.Refused = o.Documents, o.Chunks, o.Classes,
		o.Mentions, o.DeadLetters, o.Refused
	r.Models, r.Diff, r.Problems, r.Published = o.Models, o.Diff, o.Problems, o.Published
	r.ProblemsTotal, r.ProblemsPath, r.Reasons = o.ProblemsTotal, o.ProblemsPath, o.Reasons
	r.DocumentsFailed, r.ChunksFailed, r.Stale = o.DocumentsFailed, o.ChunksFailed, o.Stale
	r.DocumentsEmpty = o.DocumentsEmpty
	r.Bytes, r.Planned, r.Probes, r.Watched, r.Enriched = o.Bytes, o.Planned, o.Probes, o.Watched, o.Enriched
}

// NoteProblem adds a problem that the report does not have yet; one without a code is none.
func (r *Report) NoteProblem(problem Problem) {
	if problem.Code != "" && !slices.Contains(r.Problems, problem) {
		r.Problems = append(r.Problems, problem)
		r.ProblemsTotal++
	}
}

// Sum returns the number of calls of all tasks.
func (c Calls) Sum() int64 { return c.Extract + c.Shorten + c.Embed + c.Transcribe }

// Plus adds calls by task.
func (c Calls) Plus(other Calls) Calls {
	return Calls{
		c.Extract + other.Extract, c.Shorten + other.Shorten, c.Embed + other.Embed, c.Transcribe + other.Transcribe,
	}
}

// ofTask returns the count of a task; nil: builds do not have it.
func (c *Calls) ofTask(task string) *int64 {
	switch task {
	case "extract", "triples", "pairs": // as questions of chunks are: one call each
		return &c.Extract
	case "shorten":
		return &c.Shorten
	case "embed":
		return &c.Embed
	case "transcribe":
		return &c.Transcribe
	}
	return nil
}

// Count adds n calls of a task; tasks that builds do not have are not counted.
func (c *Calls) Count(task string, n int64) {
	if count := c.ofTask(task); count != nil {
		*count += n
	}
}

// CountOf returns the number of calls of a task; 0 of tasks that builds do not have.
func (c Calls) CountOf(task string) int64 {
	if count := c.ofTask(task); count != nil {
		return *count
	}
	return 0
}
