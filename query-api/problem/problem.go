// Package problem is an error of query-api as the forms of agents tell it (RFC 9457, without its type and title).
package problem

import (
	"errors"
	"time"
)

// Problem is an error that a question met.
type Problem struct {
	Status     int           `json:"status"`
	Code       string        `json:"code"`
	Detail     string        `json:"detail"`
	Hint       string        `json:"hint"`
	Param      string        `json:"param"`
	Reference  string        `json:"reference"`
	RetryAfter time.Duration `json:"-"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// As finds the problem in an error, or gives nil.
func As(err error) *Problem {
	var problem *Problem
	if errors.As(err, &problem) {
		return problem
	}
	return nil
}
