from unittest import mock
from itsdangerous import BadSignature, SignatureExpired, TimestampSigner, URLSafeTimedSerializer

signer = TimestampSigner("k")
with mock.patch.object(TimestampSigner, "get_timestamp", return_value=500):
    signed = signer.sign("x")
for age, good in [(0, True), (5, True), (6, False), (-1, False)]:
    with mock.patch.object(TimestampSigner, "get_timestamp", return_value=500 + age):
        assert signer.validate(signed, max_age=5) == good, age
serializer = URLSafeTimedSerializer("k")
assert serializer.loads(serializer.dumps([1, 2]), max_age=60) == [1, 2]
try:
    signer.unsign(signed + b"x")
    raise SystemExit("a wrong signature was taken")
except BadSignature:
    pass
