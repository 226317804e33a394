// Package sqs is the adapter of events over Amazon SQS through aws-sdk-go-v2. The SDK's own retries are off: who
// receives asks again.
package sqs

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/unweaver/unweaver/internal/core/hostinfo"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/events"
)

// Times of a request: how long it waits for messages, how long these are invisible to others, and when it is given up.
const (
	waitSeconds      = 20
	invisibleSeconds = 120
	patience         = 40 * time.Second
)

// most is how many messages a request may be about.
const most = 10

// Queue implements events.Queue.
type Queue struct {
	client *sqs.Client
	uri    string
	url    string
}

var _ events.Queue = (*Queue)(nil)

// hostRegion finds the region in the host of a queue of AWS.
var hostRegion = regexp.MustCompile(`^sqs\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$`)

// Open makes a client of the queue at sqs://HOST/ACCOUNT/NAME; it sends nothing. region is that of a host which names
// none. A host on this machine is asked without TLS.
func Open(ctx context.Context, uri, region string) (*Queue, error) {
	place, err := url.Parse(uri)
	if err != nil || place.Scheme != "sqs" || place.Host == "" || strings.Trim(place.Path, "/") == "" {
		return nil, fault.BadConfig.At("parse", uri).Because("it does not have the form sqs://HOST/ACCOUNT/NAME").
			Advise("take the URL of the queue, with sqs:// in place of https://")
	}
	endpoint := "https://" + place.Host
	if hostinfo.IsLoopback(place.Hostname()) {
		endpoint = "http://" + place.Host
	}
	if found := hostRegion.FindStringSubmatch(place.Hostname()); found != nil {
		region = found[1]
	}
	client := awshttp.NewBuildableClient().WithTimeout(patience).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = 5 * time.Second })
	loaded, err := config.LoadDefaultConfig(ctx, config.WithRegion(region), config.WithHTTPClient(client),
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }))
	if err != nil {
		return nil, fault.BadConfig.At("configure SQS for", uri).Because(err).
			Advise("check the AWS variables of the environment")
	}
	return &Queue{
		client: sqs.NewFromConfig(loaded, func(options *sqs.Options) { options.BaseEndpoint = &endpoint }),
		uri:    uri, url: endpoint + place.Path,
	}, nil
}

// Location implements events.Queue.
func (q *Queue) Location() string { return q.uri }

// Receive implements events.Queue.
func (q *Queue) Receive(ctx context.Context) ([]events.Message, error) {
	out, err := q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, MaxNumberOfMessages: most, WaitTimeSeconds: waitSeconds, VisibilityTimeout: invisibleSeconds,
	})
	if err != nil {
		return nil, q.wrapError(ctx, "receive events from", err)
	}
	var messages []events.Message
	for _, one := range out.Messages {
		messages = append(messages, events.Message{Body: aws.ToString(one.Body), Receipt: aws.ToString(one.ReceiptHandle)})
	}
	return messages, nil
}

// Delete implements events.Queue.
func (q *Queue) Delete(ctx context.Context, messages []events.Message) error {
	for len(messages) > 0 {
		part := messages[:min(most, len(messages))]
		messages = messages[len(part):]
		var entries []types.DeleteMessageBatchRequestEntry
		for i, message := range part {
			entries = append(entries, types.DeleteMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), ReceiptHandle: aws.String(message.Receipt),
			})
		}
		out, err := q.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &q.url, Entries: entries})
		if err != nil {
			return q.wrapError(ctx, "delete events from", err)
		}
		if len(out.Failed) > 0 { // they are delivered again, and kept again
			one := out.Failed[0]
			return fault.StoreDown.At("delete events from", q.uri).
				Because(aws.ToString(one.Code) + ": " + aws.ToString(one.Message)).Advise("it is asked again")
		}
	}
	return nil
}

// wrapError returns what kind of failure an answer, or none, is.
func (q *Queue) wrapError(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var answer *awshttp.ResponseError
	status := 0
	if errors.As(err, &answer) {
		status = answer.HTTPStatusCode()
	}
	why := err
	var api smithy.APIError
	if errors.As(err, &api) {
		why = errors.New(api.ErrorCode() + ": " + api.ErrorMessage())
	}
	missing := new(types.QueueDoesNotExist)
	switch {
	case errors.As(err, &missing):
		return fault.BadConfig.At(op, q.uri).Because(why).
			Advise("create the queue, or correct indexes.<name>.freshness.events: account, name and region")
	case status >= 500 || status == http.StatusTooManyRequests || api == nil:
		return fault.StoreDown.At(op, q.uri).Because(why).Advise("check the address; it is asked again")
	}
	return fault.StoreDenied.At(op, q.uri).Because(why).
		Advise("allow the worker's role sqs:ReceiveMessage and sqs:DeleteMessage on this queue; one of another account " +
			"allows it in its own policy too")
}
