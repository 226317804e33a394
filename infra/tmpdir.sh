#!/bin/sh
# Prints the folder for temporary files of tests: memory where there is plenty, for most of what a test on a busy disk
# does is wait for syncs of files that it throws away. Its name is always the same: Go keeps the result of a test only
# for the environment it ran in. What a killed run left there three hours ago is removed.
#
#   UNWEAVER_TEST_DISK=1   they lie on the disk, at TMPDIR or /tmp
set -u
disk=${TMPDIR:-/tmp}
place=/dev/shm/uw-tests-$(id -u)
free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
memory=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo 2>/dev/null)
if [ -n "${UNWEAVER_TEST_DISK:-}" ] || [ "${free:-0}" -lt 4000000 ] || [ "${memory:-0}" -lt 8000000 ]; then
  echo "$disk"
  exit
fi
if ! mkdir -p -m 700 "$place" || [ ! -O "$place" ] || [ -L "$place" ]; then
  echo "$disk"
  exit
fi
# Programs that tests write must run there.
probe=$place/runs.$$
runs=$({ printf "#!/bin/sh\necho yes\n" >"$probe" && chmod +x "$probe" && "$probe"; } 2>/dev/null)
rm -f "$probe"
if [ "$runs" != yes ]; then
  echo "$disk"
  exit
fi
find "$place" -mindepth 1 -maxdepth 1 -mmin +180 -exec rm -rf {} + 2>/dev/null
echo "$place"
