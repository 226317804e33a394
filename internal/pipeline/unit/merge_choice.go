package unit

import (
	"cmp"
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
	stored "github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/segment"
	"github.com/unweaver/unweaver/internal/text"
)

// Of a night's segments so many are merged, and those of which so much is dead are written again, that a generation has
// few of them whatever the number of nights, and no night costs more than a small share of the corpus.
const (
	tierBase = 64 // rows under tierBase × tierWidth are the first tier

	deadShare  = 0.20 // from it on a segment is written again, while the night's budget lasts
	forceShare = 0.64 // from it on always

	changeTimes = 4  // the budget of a night is so many times what it changed
	corpusShare = 12 // or one part in so many of the corpus, where that is more
)

// tierWidth segments of about one size become one.
const tierWidth = 8

// mergeable is a segment as the policy sees it.
type mergeable struct {
	rows, dead int64
}

func (m mergeable) countLive() int64 { return m.rows - m.dead }

func (m mergeable) deadRatio() float64 {
	if m.rows == 0 {
		return 0
	}
	return float64(m.dead) / float64(m.rows)
}

// tierOf returns the tier of a size.
func tierOf(rows int64) (number int) {
	for limit := int64(tierBase * tierWidth); rows >= limit; limit *= int64(tierWidth) {
		number++
	}
	return number
}

// mergesOf chooses what is merged tonight of splits or class runs. change is how many rows the night wrote and how many
// died of it; most is how many a segment has.
func mergesOf(list []mergeable, change, most int64) (groups [][]int) {
	return mergeRule{most: most, dead: deadShare}.chooseGroups(list, change)
}

// mergeRule is what differs between kinds of segments.
type mergeRule struct {
	most int64   // rows of a segment
	dead float64 // share from which one is written again, while the night's budget lasts
}

// mergeBudget returns how many rows a night may write again.
func mergeBudget(rows, change int64) int64 { return max(changeTimes*change, rows/corpusShare) }

// chooseGroups chooses of each tier with enough segments the smallest, as long as what comes of them is no larger than
// a segment may be, then segments with much that is dead.
func (m mergeRule) chooseGroups(list []mergeable, change int64) (groups [][]int) {
	var total int64
	tiers := map[int][]int{}
	for i, one := range list {
		total += one.countLive()
		tiers[tierOf(one.countLive())] = append(tiers[tierOf(one.countLive())], i)
	}
	budget := mergeBudget(total, change)
	taken := map[int]bool{}
	take := func(group []int, rows int64) {
		groups = append(groups, group)
		budget -= rows
		for _, i := range group {
			taken[i] = true
		}
	}
	for i, one := range list {
		if one.deadRatio() >= forceShare {
			take([]int{i}, one.countLive())
		}
	}
	for number := 0; len(tiers) > 0; number++ {
		group := tiers[number]
		delete(tiers, number)
		group = slices.DeleteFunc(group, func(i int) bool { return taken[i] })
		if len(group) < tierWidth {
			continue
		}
		slices.SortStableFunc(group, func(a, b int) int { return cmp.Compare(list[a].countLive(), list[b].countLive()) })
		var chosen []int
		var rows int64
		for _, i := range group[:tierWidth] {
			if rows+list[i].countLive() > min(budget, m.most) {
				break
			}
			rows += list[i].countLive()
			chosen = append(chosen, i)
		}
		if len(chosen) > tierWidth/2 { // fewer save nothing: what a night can pay for comes another night
			take(chosen, rows)
		}
	}
	var dead []int
	for i, one := range list {
		if !taken[i] && one.deadRatio() >= m.dead {
			dead = append(dead, i)
		}
	}
	slices.SortStableFunc(dead, func(a, b int) int { return cmp.Compare(list[b].deadRatio(), list[a].deadRatio()) })
	for _, i := range dead {
		if list[i].countLive() <= budget {
			take([]int{i}, list[i].countLive())
		}
	}
	return groups
}

// withoutDead adds to the groups of segments that are merged all others of which anything is dead, each by itself.
func withoutDead(groups [][]int, count int, dead func(number int) bool) [][]int {
	taken := map[int]bool{}
	for _, group := range groups {
		for _, number := range group {
			taken[number] = true
		}
	}
	for number := range count {
		if !taken[number] && dead(number) {
			groups = append(groups, []int{number})
		}
	}
	return groups
}

// mergeSegments merges what the policy chooses of a night's segments. It is a part of the night: what is published has
// one layout, and a crash leaves what was before.
func (n *night) mergeSegments(ctx context.Context, manifest *core.Manifest, written *core.Written) error {
	files, err := stored.Open(
		ctx, n.Cache, n.Index, manifest.Segments, text.LanguageOf(n.Settings.Retrieval.Language).Analyser(),
	)
	if err != nil {
		return err
	}
	defer files.Release()
	var splits, runs []mergeable
	for i, one := range manifest.Segments.Splits {
		splits = append(splits, mergeable{one.Chunks, deadChunks(files, i, one)})
	}
	for _, one := range manifest.Segments.Runs {
		next := mergeable{rows: one.Rows}
		if dead := files.FindTomb(one.SHA256); dead != nil {
			next.dead = int64(dead.CountDead())
		}
		runs = append(runs, next)
	}
	shards, err := run.ShardsFile.Read(ctx, n.Scratch)
	if err != nil {
		return err
	}
	classes := int64(0)
	for _, one := range manifest.Segments.Runs {
		if !slices.ContainsFunc(n.parent.Segments.Runs, func(was core.Run) bool { return was.SHA256 == one.SHA256 }) {
			classes += one.Rows
		}
	}
	groups := segment.Merges{
		Splits: mergesOf(splits, shards.CountMade()+n.CountGone().Chunks, mostChunks),
		Runs:   mergesOf(runs, classes, mostRows),
	}
	if len(n.fixed.Pending) > 0 { // what is dead may be of what has to go
		groups.Splits = withoutDead(groups.Splits, len(splits), func(i int) bool {
			return files.FindTomb(manifest.Segments.Splits[i].SHA256) != nil
		})
		groups.Runs = withoutDead(groups.Runs, len(runs), func(i int) bool {
			return files.FindTomb(manifest.Segments.Runs[i].SHA256) != nil
		})
	}
	if len(groups.Splits)+len(groups.Runs) == 0 {
		return nil
	}
	settings, err := n.withNames(ctx)
	if err != nil {
		return err
	}
	merged, fresh, err := segment.Merge(ctx, segment.MergeIn{
		Artifacts: n.Index, Cache: n.Cache, Spec: settings, Listed: manifest.Segments, Files: files,
		OnProgress: n.Touch,
	}, groups)
	if err != nil {
		return err
	}
	manifest.Segments = merged
	written.Segments += fresh
	n.Log.Info("segments merged", "run_id", n.Name(), "splits", len(groups.Splits), "runs", len(groups.Runs),
		"left", len(merged.Splits)+len(merged.Runs))
	return nil
}

// deadChunks counts the chunks of a split that do not count.
func deadChunks(files *stored.Files, number int, one core.Split) (count int64) {
	dead := files.FindTomb(one.SHA256)
	if dead == nil {
		return 0
	}
	for row, document := range files.Splits[number].Documents {
		if dead.IsDead(row) {
			count += int64(document.Count)
		}
	}
	return count
}
