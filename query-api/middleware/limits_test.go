package middleware

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/fault"
)

func TestMoneyOfADayIsSpentOnce(t *testing.T) {
	all := newLimits(access.Limits{MoneyPerDay: 1})
	key := &access.Key{ID: "one"}
	caller := Caller{account: all.ofKey(key)}
	caller.Spend(0.6)
	require.NoError(t, caller.AdmitAnswer())
	caller.Spend(0.6)
	err := (&Caller{account: all.ofKey(key)}).AdmitAnswer()
	assert.True(t, fault.Is(err, fault.BudgetSpent) && fault.RetryAfter(err) > 0, "%v", err)
	assert.NoError(t, (&Caller{account: all.ofKey(&access.Key{ID: "two"})}).AdmitAnswer(), "another key pays for it")
	key.Limits.RequestsPerSecond = 5 // another limit forgets nothing
	if err := (&Caller{account: all.ofKey(key)}).AdmitAnswer(); !fault.Is(err, fault.BudgetSpent) {
		t.Errorf("%v", err)
	}
	key.Limits.MoneyPerDay = 2
	assert.NoError(t, (&Caller{account: all.ofKey(key)}).AdmitAnswer(), "a higher limit of the key's own")
}

func TestOnlySoManyRequestsRunAtOnce(t *testing.T) {
	caller := Caller{account: newAccount(access.Limits{Concurrency: 2})}
	first, err := caller.enterRequest()
	require.NoError(t, err)
	_, err = caller.enterRequest()
	require.NoError(t, err)
	_, err = caller.enterRequest()
	assert.True(t, fault.Is(err, fault.RateLimited) && fault.RetryAfter(err) > 0, "a third: %v", err)
	first()
	_, err = caller.enterRequest()
	assert.NoError(t, err, "after one has ended")
}

func TestAddressesAreBoundedAndThoseOfANetworkShareAnAccount(t *testing.T) {
	all := newLimits(access.Limits{RequestsPerSecond: 1, Burst: 1})
	one := all.ofAddress(netip.MustParseAddr("2001:db8::1"))
	assert.True(t, all.ofAddress(netip.MustParseAddr("2001:db8::ffff:2")) == one, "one network has two accounts")
	assert.True(t, all.ofAddress(netip.MustParseAddr("2001:db8:0:1::1")) != one, "two networks have one account")
	if all.ofAddress(netip.MustParseAddr("::ffff:192.0.2.1")) != all.ofAddress(netip.MustParseAddr("192.0.2.1")) {
		t.Error("one address of four has two accounts")
	}
	for i := range 3 * maxAddresses {
		all.ofAddress(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	assert.True(t, len(all.addresses) <= maxAddresses && all.order.Len() <= maxAddresses,
		"%d addresses are remembered", len(all.addresses))
}
