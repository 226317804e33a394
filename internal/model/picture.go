package model

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"sync"
)

// AdvisePictures is what to do where a model takes no pictures.
const AdvisePictures = "set models.vision.model to a model that takes images; pages stay without text until then"

// ProbePicture returns a blank sheet that every model with image input can look at.
var ProbePicture = sync.OnceValue(func() []byte {
	const side = 64
	sheet := image.NewGray(image.Rect(0, 0, side, side))
	draw.Draw(sheet, sheet.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	var out bytes.Buffer
	_ = jpeg.Encode(&out, sheet, nil) // a buffer takes all
	return out.Bytes()
})
