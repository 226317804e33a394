package chunk_test

import (
	"context"
	"fmt"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// A corpus is planned, then each unit of the plan becomes chunks. An object that cannot be read is a problem of the
// unit, and the others are used.
func ExampleRun() {
	ctx := context.Background()
	corpus := documenttest.New(map[string]string{
		"fram.txt": "Fram sailed to Antarctica. It was built in Larvik.", "broken.pdf": "no PDF at all",
	})
	artifacts := artifact.Index{Store: blobmemory.New(), Name: "ships"}
	limits := document.DefaultLimits()
	spec := core.Spec{
		Index: "ships", Corpus: "memory", Chunking: core.Chunking{Strategy: "text", Boundaries: "stable", MaxTokens: 60},
	}
	const scratch = "ships/runs/1"
	planned, err := plan.Run(ctx, plan.In{
		Spec: spec, Corpus: corpus, Artifacts: artifacts, Scratch: scratch, Limits: limits, OnProgress: func(int64) {},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	rows := artifact.ScratchKey(plan.RowsKey(scratch), planned.Rows)
	for number, unit := range planned.Units {
		result, err := chunk.Run(ctx, chunk.In{
			Spec: spec, Corpus: corpus, Artifacts: artifacts, Scratch: scratch, Plan: rows, Unit: number, From: unit.From,
			To: unit.To, Limits: limits, Parser: documenttest.Here{Limits: limits}, OnProgress: func(int64) {},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d document, %d chunk, %d failed\n", result.Counts.Documents, result.Counts.Chunks, result.Failed)
		for _, problem := range result.Problems {
			fmt.Println(problem.Object, problem.Code)
		}
	}
	// Output:
	// 1 document, 1 chunk, 1 failed
	// broken.pdf unreadable_document
}
