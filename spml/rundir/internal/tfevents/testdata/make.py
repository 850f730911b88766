# Writes scalars.tfevents with TensorBoard's own classes: python make.py (pip install tensorboard==2.21.0)
import pathlib
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

out = pathlib.Path(__file__).parent / "scalars.tfevents"
with out.open("wb") as f:
    w = RecordWriter(f)
    t = 1700000000.25
    w.write(event_pb2.Event(wall_time=t, file_version="brain.Event:2").SerializeToString())
    w.write(event_pb2.Event(wall_time=t, step=300, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)).SerializeToString())
    for step, loss, test in ((300, 0.125, 81.25), (70000, -3.4e-5, float("nan"))):
        s = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag="train/loss", simple_value=loss), summary_pb2.Summary.Value(tag="test/mAP é", simple_value=test)])
        w.write(event_pb2.Event(wall_time=t, step=step, summary=s).SerializeToString())
