package milvus

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/milvus-io/milvus-proto/go-api/v2/commonpb"
	"github.com/milvus-io/milvus-proto/go-api/v2/milvuspb"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Import implements vectors.Importer. The call is sent once: Milvus does not check keys, and an import that is asked
// for twice doubles its rows for good.
func (s *Store) Import(ctx context.Context, collection, path string) (string, error) {
	id, err := s.c.BulkInsert(ctx, collection, "", []string{path})
	if err != nil {
		return "", s.wrapError(ctx, "import "+path+" into", collection, err)
	}
	return strconv.FormatInt(id, 10), nil
}

// ListImports implements vectors.Importer.
func (s *Store) ListImports(ctx context.Context, collection string) (map[string][]string, error) {
	response, err := s.raw.ListImportTasks(
		ctx,
		&milvuspb.ListImportTasksRequest{CollectionName: collection, Limit: 100_000},
	)
	if err != nil {
		return nil, s.wrapError(ctx, "list imports into", collection, err)
	}
	out := map[string][]string{}
	for _, t := range response.GetTasks() {
		files := ""
		for _, kv := range t.GetInfos() {
			if kv.GetKey() == "files" {
				files = kv.GetValue()
			}
		}
		for f := range strings.SplitSeq(files, ",") {
			out[f] = append(out[f], strconv.FormatInt(t.GetId(), 10))
		}
	}
	return out, nil
}

// ImportState implements vectors.Importer.
func (s *Store) ImportState(ctx context.Context, job string) (vectors.ImportState, error) {
	id, err := strconv.ParseInt(job, 10, 64)
	if err != nil {
		return vectors.ImportState{}, fault.Internal.At("read import job", job).Because(err)
	}
	response, err := s.raw.GetImportState(ctx, &milvuspb.GetImportStateRequest{Task: id})
	if se, ok := errors.AsType[*statusError](err); ok &&
		se.mentionsAny("failed to get import", "not found", "doesn't exist", "not exist") {
		return vectors.ImportState{Unknown: true}, nil // Milvus forgets tasks after some hours
	}
	if err != nil {
		return vectors.ImportState{}, s.wrapError(ctx, "read import job", job, err)
	}
	st := vectors.ImportState{
		Rows: response.GetRowCount(),
		Done: response.GetState() == commonpb.ImportState_ImportCompleted,
	}
	if f := response.GetState(); f == commonpb.ImportState_ImportFailed ||
		f == commonpb.ImportState_ImportFailedAndCleaned {
		st.Failed = "failed"
		for _, kv := range response.GetInfos() {
			if kv.GetKey() == "failed_reason" && kv.GetValue() != "" {
				st.Failed = kv.GetValue()
			}
		}
	}
	return st, nil
}
