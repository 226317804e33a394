package host

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/internal/telemetry/health"
)

// counting is an interceptor that counts and times attempts of activities.
type counting struct {
	interceptor.WorkerInterceptorBase
	telemetry *telemetry.Process
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (c *counting) InterceptActivity(
	ctx context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &countedActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, c.telemetry}
}

type countedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	telemetry *telemetry.Process
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (c *countedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info, began := activity.GetInfo(ctx), time.Now()
	name := info.ActivityType.Name
	if info.Attempt > 1 {
		c.telemetry.Count(telemetry.ActivityRetries, 1, name)
	}
	c.telemetry.Add(telemetry.ActivityRunning, 1)
	defer c.telemetry.Add(telemetry.ActivityRunning, -1)
	result, err := c.Next.ExecuteActivity(ctx, in)
	c.telemetry.Time(telemetry.ActivitySeconds, time.Since(began), name)
	if err != nil {
		c.telemetry.Count(telemetry.ActivityFailures, 1, name, activityCode(err))
	}
	return result, err
}

// activityCode returns the code of an activity's error: the type that activities give it.
func activityCode(err error) string {
	if known, ok := errors.AsType[*temporal.ApplicationError](err); ok && known.Type() != "" {
		return known.Type()
	}
	return telemetry.Code(err)
}

// CheckEngine returns what /readyz asks: whether the engine answers.
func CheckEngine(engine client.Client) health.Ready {
	return func(ctx context.Context) (checks map[string]string, ready bool) {
		if _, err := engine.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
			return map[string]string{"engine": string(fault.EngineDown)}, false
		}
		return map[string]string{"engine": "ok"}, true
	}
}
