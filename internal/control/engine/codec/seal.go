package codec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"go.temporal.io/api/command/v1"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
)

// field of a header that holds the seal. It is the only one: the other fields travel inside of it.
const field = "unweaver-seal"

// beginner is the field with the run that starts a child or continues, on the way from the workflow to the seal.
const beginner = "unweaver-beginner"

// seal says what a message is, so that it cannot be taken for another one, nor one without input be made by anybody.
type seal struct {
	Kind   string                     `json:"kind"`
	Name   string                     `json:"name"`             // type of a workflow or activity; name of the rest
	ID     string                     `json:"id,omitempty"`     // of the workflow; of an activity in its workflow
	Update string                     `json:"update,omitempty"` // id of an update
	Run    string                     `json:"run,omitempty"`    // that starts a child, or that continues as new
	At     time.Time                  `json:"at,omitzero"`      // of a start
	Header map[string]*common.Payload `json:"header,omitempty"` // fields of others, as those of traces
}

// The kinds of messages.
const (
	kindStart    = "start"
	kindSchedule = "schedule"
	kindChild    = "child"
	kindContinue = "continue"
	kindSignal   = "signal"
	kindQuery    = "query"
	kindUpdate   = "update"
	kindActivity = "activity"
)

// fresh is for how long a start may be used: who recorded one cannot repeat it later. Clocks may differ by it, and the
// engine may be down for as long between the command to start a child and the child's start.
const fresh = 15 * time.Minute

// sealer seals what leaves this process, and refuses what comes in without a seal.
type sealer struct {
	interceptor.InterceptorBase
	codec *payloads
	log   *slog.Logger
}

// sealCodec returns the codec of seals.
func (s *sealer) sealCodec() *payloads {
	out := *s.codec
	out.bound, out.place = bindParts("seal"), "seal"
	return &out
}

// sealRequest seals requests as a gRPC interceptor: schedules that are changed and commands of workflows pass no
// interceptor of the SDK that could write their headers.
func (s *sealer) sealRequest(
	ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	var err error
	switch r := request.(type) {
	case *workflowservice.StartWorkflowExecutionRequest:
		err = s.putSeal(&r.Header, seal{
			Kind: kindStart, Name: r.GetWorkflowType().GetName(), ID: r.GetWorkflowId(), At: time.Now().UTC(),
		})
	case *workflowservice.CreateScheduleRequest:
		err = s.putAction(r.GetSchedule())
	case *workflowservice.UpdateScheduleRequest:
		err = s.putAction(r.GetSchedule())
	case *workflowservice.SignalWorkflowExecutionRequest:
		err = s.putSeal(&r.Header, seal{
			Kind: kindSignal, Name: r.GetSignalName(), ID: r.GetWorkflowExecution().GetWorkflowId(),
		})
	case *workflowservice.QueryWorkflowRequest:
		if r.GetQuery() != nil {
			err = s.putSeal(&r.Query.Header, seal{
				Kind: kindQuery, Name: r.GetQuery().GetQueryType(), ID: r.GetExecution().GetWorkflowId(),
			})
		}
	case *workflowservice.UpdateWorkflowExecutionRequest:
		if input := r.GetRequest().GetInput(); input != nil {
			err = s.putSeal(&input.Header, seal{
				Kind: kindUpdate, Name: input.GetName(), ID: r.GetWorkflowExecution().GetWorkflowId(),
				Update: r.GetRequest().GetMeta().GetUpdateId(),
			})
		}
	case *workflowservice.RespondWorkflowTaskCompletedRequest:
		err = s.putCommands(r.GetCommands())
	}
	if err != nil {
		return err
	}
	return invoke(ctx, method, request, reply, connection, options...)
}

func (s *sealer) putAction(of *schedule.Schedule) error {
	started := of.GetAction().GetStartWorkflow()
	if started == nil {
		return nil
	}
	return s.putSeal(&started.Header, seal{
		Kind: kindSchedule, Name: started.GetWorkflowType().GetName(), ID: started.GetWorkflowId(),
	})
}

func (s *sealer) putCommands(commands []*command.Command) error {
	var errs []error
	for _, one := range commands {
		if a := one.GetScheduleActivityTaskCommandAttributes(); a != nil {
			errs = append(errs, s.putSeal(&a.Header, seal{
				Kind: kindActivity, Name: a.GetActivityType().GetName(), ID: a.GetActivityId(),
			}))
		}
		if a := one.GetStartChildWorkflowExecutionCommandAttributes(); a != nil {
			errs = append(errs, s.putSeal(&a.Header, seal{
				Kind: kindChild, Name: a.GetWorkflowType().GetName(), ID: a.GetWorkflowId(),
				Run: takeBeginner(a.GetHeader()), At: time.Now().UTC(),
			}))
		}
		if a := one.GetSignalExternalWorkflowExecutionCommandAttributes(); a != nil {
			errs = append(errs, s.putSeal(&a.Header, seal{
				Kind: kindSignal, Name: a.GetSignalName(), ID: a.GetExecution().GetWorkflowId(),
			}))
		}
		if a := one.GetContinueAsNewWorkflowExecutionCommandAttributes(); a != nil {
			errs = append(errs, s.putSeal(&a.Header, seal{
				Kind: kindContinue, Name: a.GetWorkflowType().GetName(),
				Run: takeBeginner(a.GetHeader()), At: time.Now().UTC(),
			}))
		}
	}
	return errors.Join(errs...)
}

// takeBeginner returns the run that a header was written by, and takes it out of the header.
func takeBeginner(header *common.Header) string {
	fields := header.GetFields()
	run := string(fields[beginner].GetData())
	delete(fields, beginner)
	return run
}

// putSeal makes a seal the only field of a header. A request that is sent again has it already.
func (s *sealer) putSeal(header **common.Header, with seal) error {
	fields := (*header).GetFields()
	if fields[field] != nil && len(fields) == 1 {
		return nil
	}
	with.Header = fields
	raw, err := json.Marshal(with)
	if err != nil {
		return err
	}
	closed, err := s.sealCodec().Encode([]*common.Payload{{Data: raw}})
	if err != nil {
		return err
	}
	*header = &common.Header{Fields: map[string]*common.Payload{field: closed[0]}}
	return nil
}

// openSeal reads the seal of a header and puts the fields that travelled inside of it into the header.
func (s *sealer) openSeal(header map[string]*common.Payload) (seal, error) {
	var out seal
	closed := header[field]
	if closed == nil {
		return out, errors.New("it has no seal")
	}
	plain, err := s.sealCodec().openPayload(closed)
	if err == nil {
		err = json.Unmarshal(plain.GetData(), &out)
	}
	if err != nil {
		return out, err
	}
	clear(header)
	header[field] = closed // of an update that is validated, then run
	maps.Copy(header, out.Header)
	return out, nil
}

// refuseMessage logs and returns that a message is not let in.
func (s *sealer) refuseMessage(message, workflow string, why error) error {
	s.log.Warn("refused a message of the engine: it was not written by this installation",
		"message", message, "workflow", workflow, "why", why.Error())
	return temporal.NewNonRetryableApplicationError("refused: "+why.Error(), "refused", nil)
}

// checkSeal compares the seal of a message in a workflow with what the engine says of it.
func (s *sealer) checkSeal(ctx workflow.Context, want seal) error {
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	got, err := s.openSeal(interceptor.WorkflowHeader(ctx))
	if err == nil && (got.Kind != want.Kind || got.Name != want.Name || got.ID != id || got.Update != want.Update) {
		err = fmt.Errorf("its seal is of %s %s", got.Kind, got.Name)
	}
	if err != nil {
		return s.refuseMessage(want.Kind+" "+want.Name, id, err)
	}
	return nil
}

// checkStart compares the seal of a workflow with how the engine says that it was started. The engine makes the ids of
// runs: a child's seal is good below that one run of its parent alone, a continuation's after that one run.
func (s *sealer) checkStart(ctx workflow.Context) error {
	info := workflow.GetInfo(ctx)
	id := info.WorkflowExecution.ID
	got, err := s.openSeal(interceptor.WorkflowHeader(ctx))
	if err == nil {
		var right bool
		timely := got.At.Sub(info.WorkflowStartTime).Abs() <= fresh
		switch got.Kind {
		case kindStart:
			right = got.ID == id && timely
		case kindSchedule:
			right = got.ID == scheduledID(id) && got.ID != id
		case kindChild:
			parent := info.ParentWorkflowExecution
			right = got.ID == id && timely && parent != nil && got.Run != "" && got.Run == parent.RunID
		case kindContinue:
			right = timely && got.Run != "" && got.Run == info.ContinuedExecutionRunID
		}
		if !right || got.Name != info.WorkflowType.Name {
			err = fmt.Errorf("its seal is of %s %s at %s: it is repeated, or the clocks of machines differ by more than %s",
				got.Kind, got.Name, got.At.Format(time.RFC3339), fresh)
		}
	}
	if err != nil {
		return s.refuseMessage("start of "+info.WorkflowType.Name, id, err)
	}
	return nil
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (s *sealer) InterceptWorkflow(
	_ workflow.Context, next interceptor.WorkflowInboundInterceptor,
) interceptor.WorkflowInboundInterceptor {
	return &inbound{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, sealer: s}
}

// inbound checks what comes to a workflow.
type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	sealer *sealer
}

// Init implements interceptor.WorkflowInboundInterceptor.
func (i *inbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&outbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}})
}

// outbound has the gRPC interceptor hear which run starts a child or continues as new: the command does not say it.
type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
}

// ExecuteChildWorkflow implements interceptor.WorkflowOutboundInterceptor.
func (o *outbound) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	nameBeginner(ctx)
	return o.Next.ExecuteChildWorkflow(ctx, name, args...)
}

// NewContinueAsNewError implements interceptor.WorkflowOutboundInterceptor.
func (o *outbound) NewContinueAsNewError(ctx workflow.Context, function any, args ...any) error {
	nameBeginner(ctx)
	return o.Next.NewContinueAsNewError(ctx, function, args...)
}

func nameBeginner(ctx workflow.Context) {
	run := workflow.GetInfo(ctx).WorkflowExecution.RunID
	interceptor.WorkflowHeader(ctx)[beginner] = &common.Payload{Data: []byte(run)}
}

// ExecuteWorkflow implements interceptor.WorkflowInboundInterceptor.
func (i *inbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	if err := i.sealer.checkStart(ctx); err != nil {
		return nil, err
	}
	return i.Next.ExecuteWorkflow(ctx, in)
}

// HandleSignal implements interceptor.WorkflowInboundInterceptor. A signal that is refused is dropped: an error would
// keep the workflow from going on.
func (i *inbound) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	if i.sealer.checkSeal(ctx, seal{Kind: kindSignal, Name: in.SignalName}) != nil {
		return nil
	}
	return i.Next.HandleSignal(ctx, in)
}

// HandleQuery implements interceptor.WorkflowInboundInterceptor.
func (i *inbound) HandleQuery(ctx workflow.Context, in *interceptor.HandleQueryInput) (any, error) {
	if err := i.sealer.checkSeal(ctx, seal{Kind: kindQuery, Name: in.QueryType}); err != nil {
		return nil, err
	}
	return i.Next.HandleQuery(ctx, in)
}

// ValidateUpdate implements interceptor.WorkflowInboundInterceptor.
func (i *inbound) ValidateUpdate(ctx workflow.Context, in *interceptor.UpdateInput) error {
	if err := i.sealer.checkSeal(ctx, updateOf(ctx, in)); err != nil {
		return err
	}
	return i.Next.ValidateUpdate(ctx, in)
}

// ExecuteUpdate implements interceptor.WorkflowInboundInterceptor.
func (i *inbound) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	if err := i.sealer.checkSeal(ctx, updateOf(ctx, in)); err != nil {
		return nil, err
	}
	return i.Next.ExecuteUpdate(ctx, in)
}

func updateOf(ctx workflow.Context, in *interceptor.UpdateInput) seal {
	return seal{Kind: kindUpdate, Name: in.Name, Update: workflow.GetCurrentUpdateInfo(ctx).ID}
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (s *sealer) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &tasks{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, sealer: s}
}

// tasks checks what comes to activities.
type tasks struct {
	interceptor.ActivityInboundInterceptorBase
	sealer *sealer
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (t *tasks) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	got, err := t.sealer.openSeal(interceptor.Header(ctx))
	if err == nil && (got.Kind != kindActivity || got.Name != info.ActivityType.Name || got.ID != info.ActivityID) {
		err = fmt.Errorf("its seal is of %s %s", got.Kind, got.Name)
	}
	if err != nil {
		return nil, t.sealer.refuseMessage("activity "+info.ActivityType.Name, info.WorkflowExecution.ID, err)
	}
	return t.Next.ExecuteActivity(ctx, in)
}
