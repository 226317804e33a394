package core

import "time"

// ImageRequest moves a generation to an image, or an image into an index, or verifies an image.
type ImageRequest struct {
	Action     string `json:"action"` // TransferPush, TransferPull or TransferVerify
	Index      string `json:"index"`
	Generation string `json:"generation,omitempty"` // to push; empty: what is served
	Where      string `json:"where"`                // oci://HOST/NAME:TAG, or the absolute path of a folder or tar file
	Key        string `json:"key,omitempty"`        // absolute path: to sign with, or to prove signatures with
	Adopt      bool   `json:"adopt,omitempty"`
	Force      bool   `json:"force,omitempty"`
}

// Transfer is what moving an image of an index came to, or how far it is.
type Transfer struct {
	Action     string  `json:"action"` // TransferPush, TransferPull or TransferVerify
	Index      string  `json:"index"`
	Generation string  `json:"generation,omitempty"`
	Place      string  `json:"place"`
	Digest     string  `json:"digest,omitempty"` // of the image
	Files      int     `json:"files,omitempty"`
	Bytes      int64   `json:"bytes,omitempty"` // of all files
	Moved      int64   `json:"moved"`           // of them, bytes that the other side lacked
	Seconds    float64 `json:"seconds"`
	Signed     bool    `json:"signed,omitempty"` // a signature was written, or proven
	Adopted    bool    `json:"adopted,omitempty"`
	Unchanged  bool    `json:"unchanged,omitempty"` // the index served this image already

	Stage string `json:"stage,omitempty"` // that runs now; Bytes and Seconds are of it
	Done  int64  `json:"done,omitempty"`  // bytes of the stage
}

// Actions of a transfer.
const (
	TransferPush   = "push"
	TransferPull   = "pull"
	TransferVerify = "verify"
)

// Pulled says where a generation comes from. Until it is adopted, no build changes an index that serves it.
type Pulled struct {
	From    string    `json:"from"`
	Digest  string    `json:"digest"`
	At      time.Time `json:"at"`
	Adopted bool      `json:"adopted"`
}

// PulledGenerations is pulled.json: the generations of an index that were pulled, by the sha256 of their manifests.
type PulledGenerations map[string]Pulled
