"""Writes cids.txt: the letters above U+FFFF of Adobe's character collections, by CID, from a clone of
https://github.com/adobe-type-tools/cmap-resources: python3 cids.py CLONE >cids.txt

A line is a collection; a number in it is the CID of the letter behind it, and others follow that one by one.
"""
import re
import sys

MAPS = {"CNS1": "Adobe-CNS1-7/CMap/UniCNS", "GB1": "Adobe-GB1-6/CMap/UniGB",
        "Japan1": "Adobe-Japan1-7/CMap/UniJIS", "KR": "Adobe-KR-9/CMap/UniAKR"}


def rank(letter):
    """Letters of private use stand behind all others, compatibility forms behind common ones."""
    return 0xE000 <= letter < 0xF900, 0xF900 <= letter < 0xFB00 or 0x2F800 <= letter < 0x2FA20, letter


for collection, path in MAPS.items():
    text = open(f"{sys.argv[1]}/{path}-UTF32-H").read()
    found = {}
    for kind, more in ("char", "()"), ("range", r"\s*<(\w+)>"):
        for block in re.findall(f"begincid{kind}(.*?)endcid{kind}", text, re.S):
            for first, last, cid in re.findall(rf"<(\w+)>{more}\s+(\d+)", block):
                for step in range(int(last or first, 16) - int(first, 16) + 1):
                    found.setdefault(int(cid) + step, []).append(int(first, 16) + step)
    line, before = collection, None
    for cid, letters in sorted(found.items()):
        letter = min(letters, key=rank)
        if letter > 0xFFFF:
            line += ("" if cid - 1 == before else f" {cid}") + chr(letter)
            before = cid
    print(line)
