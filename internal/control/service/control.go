// Package service is what the command line asks for: start, watch and steer runs, list and restore generations, probe
// the installation. Service does it over Temporal and the stores; package httpapi carries it over HTTP where one
// process owns them.
package service

import (
	"context"
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

// The names of package control, which says what is asked for: callers of Service need one import.
type (
	// IndexRequest is that of package control.
	IndexRequest = control.IndexRequest
	// AuditRequest is that of package control.
	AuditRequest = control.AuditRequest
	// MoveRequest is that of package control.
	MoveRequest = control.MoveRequest
	// BranchRequest is that of package control.
	BranchRequest = control.BranchRequest
	// Overlaid is that of package control.
	Overlaid = control.Overlaid
	// DifferenceRequest is that of package control.
	DifferenceRequest = control.DifferenceRequest
	// AliasesRequest is that of package control.
	AliasesRequest = control.AliasesRequest
	// LettersRequest is that of package control.
	LettersRequest = control.LettersRequest
	// BackfillRequest is that of package control.
	BackfillRequest = control.BackfillRequest
	// BackfillStarted is that of package control.
	BackfillStarted = control.BackfillStarted
	// BackfillNamed is that of package control.
	BackfillNamed = control.BackfillNamed
	// PurgeRequest is that of package control.
	PurgeRequest = control.PurgeRequest
	// PurgeAnswer is that of package control.
	PurgeAnswer = control.PurgeAnswer
	// PurgesRequest is that of package control.
	PurgesRequest = control.PurgesRequest
	// PurgesAnswer is that of package control.
	PurgesAnswer = control.PurgesAnswer
	// ScheduleRequest is that of package control.
	ScheduleRequest = control.ScheduleRequest
	// Applied is that of package control.
	Applied = control.Applied
	// Scheduled is that of package control.
	Scheduled = control.Scheduled
	// Triggered is that of package control.
	Triggered = control.Triggered
	// Priority is that of package control.
	Priority = control.Priority
	// Run is that of package control.
	Run = control.Run
	// Status is that of package control.
	Status = control.Status
	// LimitRequest is that of package control.
	LimitRequest = control.LimitRequest
	// Stopped is that of package control.
	Stopped = control.Stopped
	// Check is that of package control.
	Check = control.Check
	// Control is that of package control.
	Control = control.Control
)

// ForAnother marks what is asked by who does not own the installation.
func ForAnother(ctx context.Context) context.Context { return control.ForAnother(ctx) }

// OfAnother tells whether a context is marked so.
func OfAnother(ctx context.Context) bool { return control.OfAnother(ctx) }

// WithOperator says who asks, and why.
func WithOperator(ctx context.Context, asks core.Operator) context.Context {
	return control.WithOperator(ctx, asks)
}

// OperatorOf is who asks.
func OperatorOf(ctx context.Context) core.Operator { return control.OperatorOf(ctx) }

// Temporal is what Service asks of Temporal; client.Client has it.
type Temporal interface {
	ExecuteWorkflow(
		ctx context.Context,
		options client.StartWorkflowOptions,
		workflow any,
		args ...any,
	) (client.WorkflowRun, error)
	UpdateWorkflow(ctx context.Context, options client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error)
	CancelWorkflow(ctx context.Context, workflowID, runID string) error
	DescribeWorkflowExecution(
		ctx context.Context,
		workflowID, runID string,
	) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	ListWorkflow(
		ctx context.Context,
		request *workflowservice.ListWorkflowExecutionsRequest,
	) (*workflowservice.ListWorkflowExecutionsResponse, error)
	DescribeTaskQueue(
		ctx context.Context,
		taskQueue string,
		kind enums.TaskQueueType,
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

	// Problems tells what this process knows of a run and may not have been able to write down; nil: it works on none.
	Problems func(run string) []core.Problem

	// Grant lets runs read a corpus that is a directory, since the owner of the installation asks for it here; keep: also
	// after a restart. Nil: those below stores.corpus_roots alone.
	Grant func(directory string, keep bool) error

	SearchAttributes bool // the engine's namespace knows those of runs

	Limits document.Limits // of a document that an estimate parses; zero: those of document.DefaultLimits
}

var (
	_ Control  = (*Service)(nil)
	_ Temporal = client.Client(nil)
)

// log is where runs are read from.
func (s *Service) log() runlog.Source {
	return runlog.Source{Artifacts: s.Stores.Artifacts, Runs: s.Stores.Coordination}
}

func (s *Service) artifacts(index string) artifact.Index {
	return artifact.Index{Store: s.Stores.Artifacts, Name: index}
}

// grant lets runs read a corpus that the owner of the installation asks for.
func (s *Service) grant(ctx context.Context, corpusURI string, keep bool) error {
	if s.Grant == nil || corpusURI == "" || !app.IsPath(corpusURI) || OfAnother(ctx) {
		return nil
	}
	return s.Grant(corpusURI, keep)
}

func (s *Service) fault(err error) error { return engine.Fault(err, s.Engine) }
