package milvus

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/milvus-io/milvus-sdk-go/v2/client"
	"github.com/milvus-io/milvus-sdk-go/v2/entity"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// queryRows reads by expression, loading the collection where it is not.
func (s *Store) queryRows(ctx context.Context, name, expr string, fields ...string) (client.ResultSet, error) {
	for loaded := false; ; loaded = true {
		rs, err := s.c.Query(ctx, name, nil, expr, fields, client.WithSearchQueryConsistencyLevel(entity.ClStrong))
		if se, ok := errors.AsType[*statusError](err); ok && se.notLoaded() && !loaded {
			if err := s.loadCollection(ctx, name); err != nil {
				return nil, err
			}
			continue
		}
		return rs, s.wrapError(ctx, "read", name, err)
	}
}

// Has implements vectors.Store.
func (s *Store) Has(ctx context.Context, name string, keys []string) ([]bool, error) {
	out := make([]bool, len(keys))
	at := make(map[string][]int, len(keys))
	for i, k := range keys {
		at[k] = append(at[k], i)
	}
	for lo := 0; lo < len(keys); lo += keysPerQuery {
		rs, err := s.queryRows(ctx, name, matchKeys(keys[lo:min(lo+keysPerQuery, len(keys))]), fieldKey)
		if err != nil {
			return nil, err
		}
		col, ok := rs.GetColumn(fieldKey).(*entity.ColumnVarChar)
		if !ok {
			continue // nothing was found
		}
		for _, k := range col.Data() {
			for _, i := range at[k] {
				out[i] = true
			}
		}
	}
	return out, nil
}

// Fetch implements vectors.Store.
func (s *Store) Fetch(ctx context.Context, name string, keys []string) ([][]float32, error) {
	out := make([][]float32, len(keys))
	at := make(map[string]int, len(keys))
	for i, k := range keys {
		at[k] = i
	}
	for lo := 0; lo < len(keys); lo += keysPerQuery {
		rs, err := s.queryRows(ctx, name, matchKeys(keys[lo:min(lo+keysPerQuery, len(keys))]), fieldKey, fieldVector)
		if err != nil {
			return nil, err
		}
		ks, ok := rs.GetColumn(fieldKey).(*entity.ColumnVarChar)
		vs, vok := rs.GetColumn(fieldVector).(*entity.ColumnFloatVector)
		if !ok || !vok {
			continue // nothing was found
		}
		for i, k := range ks.Data() {
			out[at[k]] = vs.Data()[i]
		}
	}
	return out, nil
}

// Count implements vectors.Store: rows that can be read now, after everything that was written before.
func (s *Store) Count(ctx context.Context, name string) (int64, error) {
	rs, err := s.queryRows(ctx, name, "", "count(*)")
	if err != nil {
		return 0, err
	}
	col, ok := rs.GetColumn("count(*)").(*entity.ColumnInt64)
	if !ok || col.Len() == 0 {
		return 0, fault.StoreDown.At("count rows of", name).Because("the answer has no count")
	}
	return col.Data()[0], nil
}

// Search implements vectors.Store.
func (s *Store) Search(ctx context.Context, name string, vector []float32, n int) ([]vectors.Hit, error) {
	n = min(n, maxTopK)
	var sp entity.SearchParam
	var err error
	if s.index == "ivf" {
		sp, err = entity.NewIndexIvfFlatSearchParam(min(1024, max(32, n/8)))
	} else {
		sp, err = entity.NewIndexHNSWSearchParam(min(32768, max(128, 2*n)))
	}
	if err != nil {
		return nil, err
	}
	search := func(ctx context.Context) ([]client.SearchResult, error) {
		return s.c.Search(
			ctx,
			name,
			nil,
			"",
			nil,
			[]entity.Vector{entity.FloatVector(vector)},
			fieldVector,
			entity.IP,
			n,
			sp,
			client.WithSearchQueryConsistencyLevel(entity.ClBounded),
		)
	}
	var res []client.SearchResult
	err = retry.Do(ctx, func(ctx context.Context) error {
		var err error
		res, err = search(ctx)
		if se, ok := errors.AsType[*statusError](err); ok && se.notLoaded() {
			// Milvus was restarted, or another program released it.
			if err := s.loadCollection(ctx, name); err != nil {
				return err
			}
			res, err = search(ctx)
		}
		return s.wrapError(ctx, "search", name, err)
	})
	if fault.Is(err, fault.StoreDown) || err == nil && (len(res) == 0 || res[0].ResultCount == 0) {
		// Servers refuse a question of another dimension than the rows in words of their own, and an empty collection not.
		if _, dim, now := s.describeSchema(ctx, name); now == nil && dim != len(vector) {
			err = newDamageFault(name, fmt.Sprintf("its vectors have %d numbers, and the question %d", dim, len(vector)))
		}
	}
	if err != nil || len(res) == 0 {
		return nil, err
	}
	if res[0].Err != nil {
		return nil, s.wrapError(ctx, "search", name, res[0].Err)
	}
	ids, ok := res[0].IDs.(*entity.ColumnVarChar)
	if !ok {
		return nil, nil
	}
	hits := make([]vectors.Hit, 0, ids.Len())
	seen := map[string]bool{}
	for i, k := range ids.Data() {
		if !seen[k] { // a row that is there twice, by an import beside an upsert, counts once
			seen[k] = true
			hits = append(hits, vectors.Hit{Key: k, Score: res[0].Scores[i]})
		}
	}
	sort.SliceStable(hits, func(i, j int) bool {
		return hits[i].Score > hits[j].Score || (hits[i].Score == hits[j].Score && hits[i].Key < hits[j].Key)
	})
	return hits, nil
}
