package redact_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault/redact"
)

func TestWhatLooksLikeASecretIsTakenOut(t *testing.T) {
	for text, secret := range map[string]string{
		`Incorrect API key provided: Bearer sk-SECRETabc123`:          "SECRET",
		`Incorrect API key provided: sk-proj-AbCdEfGh12345678.`:       "AbCdEfGh",
		`Get "http://user:TOPSECRETPW@h:80/v1": refused`:              "TOPSECRET",
		`redis://:TOP/SECRET@redis:6379/0: no such host`:              "SECRET",
		`redis://name:TOP:SE@CRET@redis:6379/0`:                       "CRET@",
		`https://SECRETtoken@host/v1`:                                 "SECRET",
		`https://h/v1?api-version=2&api-key=SECRET1`:                  "SECRET",
		`https://h/x?X-Amz-Signature=SECRET&x=1`:                      "SECRET",
		`https://h/x?sig=SECRET`:                                      "SECRET",
		`{"error":"Authorization: Bearer eyJhbGci.SECRET.x9"}`:        "SECRET",
		`authorization: basic dXNlcjpTRUNSRVQ=`:                       "dXNlc",
		`credentials AKIAIOSFODNN7EXAMPLE are unknown`:                "IOSFODNN7",
		`AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE`: "wJalr",
		`password: "hunter22"`:                                        "hunter22",
		`token ghp_abcdefghij0123456789 is wrong`:                     "abcdefghij",
	} {
		got := redact.Text(text)
		assert.True(t, !strings.Contains(got, secret) && strings.Contains(got, redact.Mark), "%s\nbecame %s", text, got)
		assert.Equal(t, got, redact.Text(got))
	}
}

func TestOrdinaryTextStaysAsItIs(t *testing.T) {
	for _, text := range []string{
		"", "read a.txt: no such file (check the path)", "http://127.0.0.1:8080/v1/indexes/docs: 404", "s3://bucket/docs/a@b.txt",
		"bearer authentication is needed", "basic authentication", "the sk-learn manual", "redis://user:xxxxx@redis:6379/0",
		"key chunk/1#7: duplicate row id", "docs/readme.md#id=5", "a monkey: bananas", "invalid token: }",
	} {
		assert.Equal(t, text, redact.Text(text))
	}
}

func TestAValueThatThisProcessHoldsIsTakenOutWhateverItLooksLike(t *testing.T) {
	redact.Register("", "abc", "plain words/of mine ")
	for _, text := range []string{
		"the server said plain words/of mine!", "path plain+words%2Fof+mine", "path plain%20words%2Fof%20mine",
	} {
		got := redact.Text(text)
		assert.False(t, strings.Contains(got, "mine"), "%q", got)
	}
	assert.Equal(t, "abc", redact.Text("abc"), "a value too short to differ from words")
}

func TestURLsThatHoldSecretsAreKnown(t *testing.T) {
	for text, want := range map[string]bool{
		"https://h/v1": false, "http://127.0.0.1:80/v1?api-version=2": false, "https://u:p@h/v1": true,
		"https://tok@h/v1": true, "https://h/v1?api_key=x": true, "https://h/v1?code=x": false, "": false,
	} {
		assert.Equal(t, want, redact.InURL(text), "%s", text)
	}
}

func TestLogsHoldNoSecrets(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: redact.Attr}))
	log.Warn("call http://u:SECRETpw@h failed", "error", errors.New("Bearer sk-SECRETabc1"), "text", "sk-SECRETabc1")
	assert.False(t, strings.Contains(out.String(), "SECRET"), "%v", out.String())
}
