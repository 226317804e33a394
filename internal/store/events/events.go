// Package events receives the events of an object store from a queue of Amazon SQS, through aws-sdk-go-v2, and reads
// them. The SDK's own retries are off: who receives asks again.
package events

import (
	"context"
	"encoding/json"
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

// Events is what messages say that were received together.
type Events struct {
	Objects  []string // s3://bucket/key
	Receipts []string // of the messages that say so, for Delete
	Strange  int      // messages that are no event notification of S3
}

// Queue delivers each message at least once. Errors are fault.StoreDenied, BadConfig, or StoreDown (transient).
type Queue struct {
	URI string // for people

	client *sqs.Client
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
	client := sqs.NewFromConfig(loaded, func(options *sqs.Options) { options.BaseEndpoint = &endpoint })
	return &Queue{URI: uri, client: client, url: endpoint + place.Path}, nil
}

// Receive waits for messages, some seconds at most, and returns what some of those say that are there, or nothing.
func (q *Queue) Receive(ctx context.Context) (out Events, err error) {
	got, err := q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, MaxNumberOfMessages: 10, WaitTimeSeconds: waitSeconds, VisibilityTimeout: invisibleSeconds,
	})
	if err != nil {
		return out, q.wrapError(ctx, "receive events from", err)
	}
	for _, message := range got.Messages {
		objects, known := parseS3(aws.ToString(message.Body))
		if !known {
			out.Strange++
			continue
		}
		out.Objects = append(out.Objects, objects...)
		out.Receipts = append(out.Receipts, aws.ToString(message.ReceiptHandle))
	}
	return out, nil
}

// parseS3 returns the objects that a notification of S3 is about, sent to the queue or through a topic of SNS. A test
// event is about none.
func parseS3(body string) (objects []string, known bool) {
	var message struct {
		Type    string // of SNS
		Message string
		Event   string // of a test
		Records []struct {
			S3 struct {
				Bucket struct{ Name string }
				Object struct{ Key string }
			}
		}
	}
	switch err := json.Unmarshal([]byte(body), &message); {
	case err != nil:
		return nil, false
	case message.Type == "Notification" && message.Message != "":
		return parseS3(message.Message)
	case message.Event == "s3:TestEvent":
		return nil, true
	}
	for _, record := range message.Records {
		key, err := url.QueryUnescape(record.S3.Object.Key)
		if err != nil || record.S3.Bucket.Name == "" || key == "" {
			return nil, false
		}
		objects = append(objects, "s3://"+record.S3.Bucket.Name+"/"+key)
	}
	return objects, len(objects) > 0
}

// Delete removes messages of one Receive. Those that are not deleted are delivered again.
func (q *Queue) Delete(ctx context.Context, receipts []string) error {
	if len(receipts) == 0 {
		return nil
	}
	var entries []types.DeleteMessageBatchRequestEntry
	for i := range receipts {
		entries = append(entries, types.DeleteMessageBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &receipts[i],
		})
	}
	out, err := q.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &q.url, Entries: entries})
	if err != nil {
		return q.wrapError(ctx, "delete events from", err)
	}
	if len(out.Failed) > 0 { // they are delivered again, and kept again
		one := out.Failed[0]
		return fault.StoreDown.At("delete events from", q.URI).
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
	var api smithy.APIError
	var missing *types.QueueDoesNotExist
	why := err
	if errors.As(err, &api) {
		why = errors.New(api.ErrorCode() + ": " + api.ErrorMessage())
	}
	switch answered := errors.As(err, &answer); {
	case errors.As(err, &missing):
		return fault.BadConfig.At(op, q.URI).Because(why).
			Advise("create the queue, or correct indexes.<name>.freshness.events and stores.s3.region")
	case api == nil, answered && (answer.HTTPStatusCode() >= 500 || answer.HTTPStatusCode() == http.StatusTooManyRequests):
		return fault.StoreDown.At(op, q.URI).Because(why).Advise("check the address; it is asked again")
	}
	return fault.StoreDenied.At(op, q.URI).Because(why).
		Advise("allow the worker's role sqs:ReceiveMessage and sqs:DeleteMessage on this queue; one of another account " +
			"allows it in its own policy too")
}
