// Package proxy stands between a client and a server on loopback and makes the connection bad: it delays, cuts, loses
// replies and goes silent, by a seed, so that what holds on a good network can be tried on another.
package proxy

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Weather is how bad the connections are. Shares are from 0 to 1; the zero value is a good network.
type Weather struct {
	Delay  time.Duration // each piece of a reply comes up to this much later
	Lose   float64       // of the replies: the request was delivered, the connection breaks before a byte comes back
	Cut    float64       // of the pieces of replies: the connection breaks in the middle of one
	Refuse float64       // of the connections: broken as soon as they are made
}

// Counts of what a proxy did.
type Counts struct {
	Connections int64
	Refused     int64
	Lost        int64 // replies of which nothing came back
	Cut         int64 // replies of which a part came back
}

// Proxy forwards connections to one server.
type Proxy struct {
	Address string // host:port to connect to

	target   string
	listener net.Listener
	mu       sync.Mutex
	random   *rand.Rand
	weather  Weather
	silence  time.Time // nothing is forwarded before
	open     map[*net.TCPConn]bool
	counts   Counts
	closed   bool
}

// New listens on a port of its own and forwards to target, a host:port, until Close.
func New(target string, seed uint64) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		Address: listener.Addr().String(), target: target, listener: listener,
		random: rand.New(rand.NewPCG(seed, 1)), open: map[*net.TCPConn]bool{},
	}
	go p.accept()
	return p, nil
}

// Set changes the weather of all connections, those that are open too.
func (p *Proxy) Set(weather Weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weather = weather
}

// BlackHole forwards nothing for a while, in neither direction; connections stay open, and go on after it.
func (p *Proxy) BlackHole(lasts time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silence = time.Now().Add(lasts)
}

// Drop breaks every connection that is open.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		reset(conn)
	}
}

// Counts gives what was done so far.
func (p *Proxy) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed, p.silence = true, time.Time{}
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Drop()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.serve(conn.(*net.TCPConn))
	}
}

// reset breaks a connection so that its other end gets an error and no end of file.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

func (p *Proxy) serve(client *net.TCPConn) {
	p.mu.Lock()
	p.counts.Connections++
	refuse := p.random.Float64() < p.weather.Refuse
	if refuse {
		p.counts.Refused++
	}
	p.mu.Unlock()
	if refuse {
		reset(client)
		return
	}
	conn, err := net.Dial("tcp", p.target)
	if err != nil {
		reset(client)
		return
	}
	server := conn.(*net.TCPConn)
	p.mu.Lock()
	p.open[client], p.open[server] = true, true
	p.mu.Unlock()
	pair := &pair{Proxy: p, client: client, server: server}
	var both sync.WaitGroup
	both.Go(pair.requests)
	both.Go(pair.replies)
	both.Wait()
	p.mu.Lock()
	delete(p.open, client)
	delete(p.open, server)
	p.mu.Unlock()
	_, _ = client.Close(), server.Close()
}

// pair is one connection and its other half.
type pair struct {
	*Proxy
	client, server *net.TCPConn
	mu             sync.Mutex
	asked          bool // a request was forwarded since the last reply
}

// requests forwards what the client sends.
func (c *pair) requests() {
	buffer := make([]byte, 32<<10)
	for {
		n, err := c.client.Read(buffer)
		if n > 0 {
			c.wait(0)
			c.mu.Lock()
			c.asked = true
			c.mu.Unlock()
			if _, err := c.server.Write(buffer[:n]); err != nil {
				reset(c.client)
				return
			}
		}
		if err != nil {
			c.end(err, c.server)
			return
		}
	}
}

// end passes an end of file on, and any other error as a broken connection.
func (c *pair) end(err error, to *net.TCPConn) {
	if errors.Is(err, io.EOF) {
		_ = to.CloseWrite()
		return
	}
	reset(to)
}

// What becomes of a piece of a reply.
const (
	forward = iota
	lose
	cut
)

// replies forwards what the server sends, as the weather is.
func (c *pair) replies() {
	buffer := make([]byte, 32<<10)
	for {
		n, err := c.server.Read(buffer)
		if n > 0 {
			fate, delay := c.fate()
			c.wait(delay)
			switch fate {
			case cut:
				_, _ = c.client.Write(buffer[:n/2])
				fallthrough
			case lose:
				reset(c.client)
				reset(c.server)
				return
			}
			if _, err := c.client.Write(buffer[:n]); err != nil {
				reset(c.server)
				return
			}
		}
		if err != nil {
			c.end(err, c.client)
			return
		}
	}
}

// fate decides about a piece of a reply.
func (c *pair) fate() (fate int, delay time.Duration) {
	c.mu.Lock()
	first := c.asked
	c.asked = false
	c.mu.Unlock()
	c.Proxy.mu.Lock()
	defer c.Proxy.mu.Unlock()
	if c.weather.Delay > 0 {
		delay = time.Duration(c.random.Int64N(int64(c.weather.Delay)))
	}
	switch chance := c.random.Float64(); {
	case first && chance < c.weather.Lose:
		c.counts.Lost++
		return lose, delay
	case chance > 1-c.weather.Cut:
		c.counts.Cut++
		return cut, delay
	}
	return forward, delay
}

// wait delays, and longer while the proxy is silent.
func (c *pair) wait(delay time.Duration) {
	time.Sleep(delay)
	for {
		c.Proxy.mu.Lock()
		left := time.Until(c.silence)
		c.Proxy.mu.Unlock()
		if left <= 0 {
			return
		}
		time.Sleep(min(left, 50*time.Millisecond))
	}
}
