// Package service is what the command line asks for: start, watch and steer runs, list and restore generations, probe
// the installation. Service does it over Temporal and the stores; package httpapi carries it over HTTP where one
// process owns them.
package service

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
)

// Temporal is what Service asks of Temporal; client.Client has it.
type Temporal interface {
	ExecuteWorkflow(
		ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any,
	) (client.WorkflowRun, error)
	UpdateWorkflow(ctx context.Context, options client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error)
	CancelWorkflow(ctx context.Context, workflowID, runID string) error
	DescribeWorkflowExecution(
		ctx context.Context, workflowID, runID string,
	) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	ListWorkflow(
		ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest,
	) (*workflowservice.ListWorkflowExecutionsResponse, error)
	DescribeTaskQueue(
		ctx context.Context, taskQueue string, kind enums.TaskQueueType,
	) (*workflowservice.DescribeTaskQueueResponse, error)
	GetWorkflow(ctx context.Context, workflowID, runID string) client.WorkflowRun
	ScheduleClient() client.ScheduleClient
	CheckHealth(ctx context.Context, request *client.CheckHealthRequest) (*client.CheckHealthResponse, error)
}

// Service implements Control.
type Service struct {
	Client    Temporal
	Engine    config.Engine
	Stores    *app.Stores
	Models    *app.Models
	Heartbeat time.Duration

	// Problems says what this process knows of a run and may not have been able to write down; nil: it works on none.
	Problems func(run string) []core.Problem

	// Grant lets runs read a corpus that is a directory, since the owner of the installation asks for it here; keep: also
	// after a restart. Nil: those below stores.corpus_roots alone.
	Grant func(directory string, keep bool) error

	SearchAttributes bool // the engine's namespace knows those of runs

	Limits document.Limits // of a document that an estimate parses; zero: those of document.DefaultLimits

	transfers sync.Map // *image.Mover of images on their way, by core.ImageRequest
}

var _ Temporal = client.Client(nil)

// runLog returns the source that runs are read from.
func (s *Service) runLog() runlog.Source {
	return runlog.Source{Artifacts: s.Stores.Artifacts, Runs: s.Stores.Coordination}
}

func (s *Service) indexOf(index string) artifact.Index {
	return artifact.Index{Store: s.Stores.Artifacts, Name: index}
}

// grantCorpus lets runs read a corpus that the owner of the installation asks for.
func (s *Service) grantCorpus(ctx context.Context, corpusURI string, keep bool) error {
	if s.Grant == nil || corpusURI == "" || !app.IsPath(corpusURI) || control.OfAnother(ctx) {
		return nil
	}
	return s.Grant(corpusURI, keep)
}

func (s *Service) toFault(err error) error { return engine.ToFault(err, s.Engine) }
