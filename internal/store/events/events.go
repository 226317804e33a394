// Package events is the port to a queue of events of an object store, and reads these events.
package events

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
)

// Message is one message of a queue. Receipt names this delivery of it.
type Message struct {
	Body    string
	Receipt string
}

// Queue delivers each message at least once. Errors are fault.StoreDenied, BadConfig, or StoreDown (transient).
type Queue interface {
	// Receive waits for messages, some seconds at most, and returns some of those that are there, or none.
	Receive(ctx context.Context) ([]Message, error)
	// Delete removes messages. Those that are not deleted are delivered again.
	Delete(ctx context.Context, messages []Message) error
	// Location returns the address of the queue, for people.
	Location() string
}

// Object is an object of a bucket that an event is about.
type Object struct{ Bucket, Key string }

// ErrNoEvent is the error of a message that is no notification of an object store.
var ErrNoEvent = errors.New("it is no event notification of S3")

// ParseS3 returns the objects that a notification of S3 is about, sent to the queue or through a topic of SNS. A test
// event is about none.
func ParseS3(body string) ([]Object, error) {
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
	if err := json.Unmarshal([]byte(body), &message); err != nil {
		return nil, ErrNoEvent
	}
	switch {
	case message.Type == "Notification" && message.Message != "":
		return ParseS3(message.Message)
	case message.Event == "s3:TestEvent":
		return nil, nil
	case len(message.Records) == 0:
		return nil, ErrNoEvent
	}
	var out []Object
	for _, record := range message.Records {
		key, err := url.QueryUnescape(record.S3.Object.Key)
		if err != nil || record.S3.Bucket.Name == "" || key == "" {
			return nil, ErrNoEvent
		}
		out = append(out, Object{record.S3.Bucket.Name, key})
	}
	return out, nil
}
