package unit

import (
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stage/estimate"
)

// PriceTasks turns what tasks ask of models into tokens, money and time. The calls of extraction are known by then.
// speed is of an embedder inside, in tokens a second; 0: there is none, or its speed is not known.
func (r *Run) PriceTasks(
	out *core.Estimate, past estimate.Past, made int64, extracted, shortening, chunks, classes estimate.Task,
	speed float64,
) {
	out.Shorten = toRange(shortening.Calls)
	out.Embed = toRange(chunks.Calls).Plus(toRange(classes.Calls))
	batched := 1.0
	batches := r.Settings.ChatOf(core.RoleExtraction).Batch
	if batches.IsOn() { // what is late or refused is asked for online
		batched = batches.PricedAt
	}
	for _, task := range []struct {
		estimate.Task
		price core.Price
		least float64 // share of the price
	}{
		{extracted, r.Settings.ChatOf(core.RoleExtraction).Price, batched},
		{shortening, r.Settings.ChatOf(core.RoleShortening).Price, 1},
		{chunks, r.Settings.Embedding.Price, 1},
		{classes, r.Settings.Embedding.Price, 1},
		{estimate.Transcription(int64(out.Transcribe.High)), r.Settings.ChatOf(core.RoleVision).Price, 1},
	} {
		out.Tokens = out.Tokens.Plus(toRange(task.Prompt)).Plus(toRange(task.Completion))
		low, high := task.Cost(task.price)
		out.Cost = out.Cost.Plus(core.Range{Low: low * task.least, High: high})
	}
	out.Seconds, out.Runs = r.estimateDuration(out, past, made, estimate.EstimateInside(chunks, classes, speed)), len(past)
}

func toRange(r estimate.Range) core.Range {
	return core.Range{Low: float64(r.Low), High: float64(r.High)}
}

// Usual seconds of one model call, from a fast hosted model to a slow one of one's own.
const (
	fastCall = 0.5
	slowCall = 10.0
)

// estimateDuration returns how long a run takes at the configured limits: by what earlier ones took, else by usual
// models, whose calls are all that is known then. inside is what an embedder inside takes, by its speed.
func (r *Run) estimateDuration(out *core.Estimate, past estimate.Past, made int64, inside core.Range) core.Range {
	embed := out.Embed
	if inside.High > 0 {
		embed = core.Range{}
	}
	seconds, known := past.EstimateSeconds(made, out.Extract, out.Shorten, embed)
	if !known {
		concurrency := float64(max(r.Settings.Limits.Concurrency, 1))
		seconds.Low = (out.Extract.Low + out.Shorten.Low + embed.Low) * fastCall / concurrency
		seconds.High = (out.Extract.High + out.Shorten.High + embed.High) * slowCall / concurrency
	}
	width := float64(max(r.Settings.LimitsOf(core.RoleVision).Concurrency, 1))
	seconds = seconds.Plus(inside).Plus(core.Range{
		Low: out.Transcribe.Low * fastCall / width, High: out.Transcribe.High * slowCall / width,
	})
	for _, limit := range []struct {
		perMinute int
		of        core.Range
	}{
		{r.Settings.Limits.RequestsPerMinute, core.Range{
			Low: out.Extract.Low + out.Shorten.Low, High: out.Extract.High + out.Shorten.High,
		}},
		{r.Settings.Limits.TokensPerMinute, out.Tokens},
	} {
		if perMinute := float64(limit.perMinute); perMinute > 0 {
			seconds.Low = max(seconds.Low, 60*limit.of.Low/perMinute)
			seconds.High = max(seconds.High, 60*limit.of.High/perMinute)
		}
	}
	return seconds
}
