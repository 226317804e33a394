package events

import (
	"encoding/json"
	"errors"
	"net/url"
)

// ErrNoEvent is the error of a message that is no notification of an object store.
var ErrNoEvent = errors.New("it is no event notification of S3")

// ParseS3 returns the objects, as s3://bucket/key, that a notification of S3 is about, sent to the queue or through a
// topic of SNS. A test event is about none.
func ParseS3(body string) ([]string, error) {
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
	var out []string
	for _, record := range message.Records {
		key, err := url.QueryUnescape(record.S3.Object.Key)
		if err != nil || record.S3.Bucket.Name == "" || key == "" {
			return nil, ErrNoEvent
		}
		out = append(out, "s3://"+record.S3.Bucket.Name+"/"+key)
	}
	return out, nil
}
