package retrieve

// KeptFrameBytes is what unpacked frames hold.
func KeptFrameBytes() int {
	unpacked.mu.Lock()
	defer unpacked.mu.Unlock()
	return unpacked.bytes
}

// FramesUnderWay is how many frames are being read.
func FramesUnderWay() int {
	unpacked.mu.Lock()
	defer unpacked.mu.Unlock()
	return len(unpacked.reading)
}

// KeepFrames bounds what unpacked frames hold until the function that it gives is called.
func KeepFrames(limit int) func() {
	unpacked.mu.Lock()
	defer unpacked.mu.Unlock()
	was := unpacked.limit
	unpacked.limit = limit
	return func() {
		unpacked.mu.Lock()
		defer unpacked.mu.Unlock()
		unpacked.limit = was
	}
}
