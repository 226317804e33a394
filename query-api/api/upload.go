package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// DocumentStored is a document that was written to the corpus of an index.
type DocumentStored struct {
	Index    string `json:"index"`
	Document string `json:"document"`
	SHA256   string `json:"sha256" doc:"of its content"`
	Bytes    int64  `json:"bytes"`
	Created  bool   `json:"created" doc:"no document had the key before"`
}

// upload is the body of a document. An error of it is never the end of the document.
type upload struct {
	io.Reader
	most int64
}

// Read implements io.Reader.
func (u upload) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	var tooBig *http.MaxBytesError
	switch {
	case err == nil || errors.Is(err, io.EOF) || fault.As(err) != nil:
		return n, err
	case errors.As(err, &tooBig):
		return n, uploadTooLarge(u.most)
	}
	return n, fault.Usage.At("read body", "").
		Because("the connection closed before the document was complete; nothing was stored").
		Advise("send the document again")
}

func uploadTooLarge(most int64) error {
	return fault.TooLarge.At("read body", "").
		Because(fmt.Sprintf("a document can have at most %d bytes", most)).
		Advise("split it, or raise query_api.upload_bytes")
}

// putDocument answers PUT …/documents/{key}.
func (o operation) putDocument() (reply, error) {
	if packed := o.Header.Get("Content-Encoding"); packed != "" && !strings.EqualFold(packed, "identity") {
		return reply{}, fault.MediaType.At("read body", "").
			Because("its Content-Encoding is " + fault.QuoteName(packed)).
			Advise("send the document as it is to be stored")
	}
	if o.ContentLength > o.desk.MostBytes {
		return reply{}, uploadTooLarge(o.desk.MostBytes)
	}
	middleware.ExtendBody(o.Request)
	key := o.PathValue("rest")
	body := bufio.NewReader(upload{http.MaxBytesReader(o.w, o.Body, o.desk.MostBytes), o.desk.MostBytes})
	if _, err := body.Peek(1); errors.Is(err, io.EOF) {
		return reply{}, newFault("read body", "", "the document is empty", "send its content; or delete the document")
	} else if err != nil {
		return reply{}, err
	}
	stored, err := o.desk.PutDocument(o.ctx, o.index, key, body, o.ContentLength, middleware.CallerOf(o.ctx).MayRead)
	if err != nil {
		return reply{}, err
	}
	status := http.StatusOK
	if stored.Created {
		status = http.StatusCreated
	}
	return reply{status: status, body: DocumentStored{
		Index: o.index, Document: key, SHA256: stored.SHA256, Bytes: stored.Bytes, Created: stored.Created,
	}}, nil
}

// deleteDocument answers DELETE …/documents/{key}.
func (o operation) deleteDocument() (reply, error) {
	err := o.desk.DeleteDocument(o.ctx, o.index, o.PathValue("rest"), middleware.CallerOf(o.ctx).MayRead)
	return reply{status: http.StatusNoContent}, err
}
