// Package events receives the events of an object store from a queue of Amazon SQS, through aws-sdk-go-v2, and reads
// them. The SDK's own retries are off: who receives asks again.
package events

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/unweaver/unweaver/internal/core/hostinfo"
	"github.com/unweaver/unweaver/internal/fault"
)

// Times of a request: how long it waits for messages, how long these are invisible to others, and when it is given up.
const (
	waitSeconds      = 20
	invisibleSeconds = 120
	patience         = 40 * time.Second
)

// most is how many messages a request may be about.
const most = 10

// Message is one message of a queue. Receipt names this delivery of it.
type Message struct {
	Body    string
	Receipt string
}

// Queue delivers each message at least once. Errors are fault.StoreDenied, BadConfig, or StoreDown (transient).
type Queue struct {
	client *sqs.Client
	uri    string
	url    string
}

// Open makes a client of the queue at sqs://HOST/ACCOUNT/NAME; it sends nothing. The queue is in the region of its
// bucket, as S3 requires. A host on this machine is asked without TLS.
func Open(ctx context.Context, uri, region string) (*Queue, error) {
	place, err := url.Parse(uri)
	if err != nil {
		return nil, fault.BadConfig.At("parse", uri).Because(err).
			Advise("take the URL of the queue, with sqs:// in place of https://")
	}
	endpoint := "https://" + place.Host
	if hostinfo.IsLoopback(place.Hostname()) {
		endpoint = "http://" + place.Host
	}
	loaded, err := config.LoadDefaultConfig(ctx, config.WithRegion(region),
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(patience)),
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

// Location returns the address of the queue, for people.
func (q *Queue) Location() string { return q.uri }

// Receive waits for messages, some seconds at most, and returns some of those that are there, or none.
func (q *Queue) Receive(ctx context.Context) ([]Message, error) {
	out, err := q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, MaxNumberOfMessages: most, WaitTimeSeconds: waitSeconds, VisibilityTimeout: invisibleSeconds,
	})
	if err != nil {
		return nil, q.wrapError(ctx, "receive events from", err)
	}
	var messages []Message
	for _, one := range out.Messages {
		messages = append(messages, Message{Body: aws.ToString(one.Body), Receipt: aws.ToString(one.ReceiptHandle)})
	}
	return messages, nil
}

// Delete removes messages of one Receive. Those that are not deleted are delivered again.
func (q *Queue) Delete(ctx context.Context, messages []Message) error {
	if len(messages) == 0 {
		return nil
	}
	var entries []types.DeleteMessageBatchRequestEntry
	for i, message := range messages {
		entries = append(entries, types.DeleteMessageBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &message.Receipt,
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
			Advise("create the queue, or correct indexes.<name>.freshness.events: account and name; check stores.s3.region")
	case status >= 500 || status == http.StatusTooManyRequests || api == nil:
		return fault.StoreDown.At(op, q.uri).Because(why).Advise("check the address; it is asked again")
	}
	return fault.StoreDenied.At(op, q.uri).Because(why).
		Advise("allow the worker's role sqs:ReceiveMessage and sqs:DeleteMessage on this queue; one of another account " +
			"allows it in its own policy too")
}
