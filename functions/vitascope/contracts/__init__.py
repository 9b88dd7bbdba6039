"""Every word that both planes share: jobs, stages, events, subjects, object keys, shapes, failures.

Pure: nothing here touches the network, the clock, the disk or a vendor's service. Both planes import this package;
it imports neither.
"""
