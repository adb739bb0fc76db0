"""Vision: a bundle adjustment, homographies by the direct linear transform, Rodrigues."""

import numpy as np


def rotate(points, rot_vecs):
    theta = np.linalg.norm(rot_vecs, axis=1)[:, np.newaxis]
    with np.errstate(invalid="ignore"):
        v = rot_vecs / theta
        v = np.nan_to_num(v)
    dot = np.sum(points * v, axis=1)[:, np.newaxis]
    cos_theta = np.cos(theta)
    sin_theta = np.sin(theta)
    return cos_theta * points + sin_theta * np.cross(v, points) + dot * (1 - cos_theta) * v


def project(points, camera_params):
    points_proj = rotate(points, camera_params[:, :3])
    points_proj += camera_params[:, 3:6]
    points_proj = -points_proj[:, :2] / points_proj[:, 2, np.newaxis]
    f = camera_params[:, 6]
    k1 = camera_params[:, 7]
    k2 = camera_params[:, 8]
    n = np.sum(points_proj**2, axis=1)
    r = 1 + k1 * n + k2 * n**2
    points_proj *= (r * f)[:, np.newaxis]
    return points_proj


def fun(params, n_cameras, n_points, camera_indices, point_indices, points_2d):
    camera_params = params[: n_cameras * 9].reshape((n_cameras, 9))
    points_3d = params[n_cameras * 9 :].reshape((n_points, 3))
    points_proj = project(points_3d[point_indices], camera_params[camera_indices])
    return (points_proj - points_2d).ravel()


def homography(src, dst):
    A = []
    for (x, y), (u, v) in zip(src, dst):
        A.append([-x, -y, -1, 0, 0, 0, u * x, u * y, u])
        A.append([0, 0, 0, -x, -y, -1, v * x, v * y, v])
    A = np.asarray(A)
    U, S, Vh = np.linalg.svd(A)
    L = Vh[-1, :] / Vh[-1, -1]
    return L.reshape(3, 3)


def huber(r, delta=1.0):
    a = np.abs(r)
    return np.sum(np.where(a <= delta, 0.5 * r**2, delta * (a - 0.5 * delta)))


def main(cameras, points):
    n_c, n_p = len(cameras), len(points)
    ci = np.repeat(np.arange(n_c), n_p)
    pi = np.tile(np.arange(n_p), n_c)
    rs = np.random.RandomState(0)
    observed = 10 * rs.rand(n_c * n_p, 2) - 5
    params = np.hstack((cameras.ravel(), points.ravel()))
    res = fun(params, n_c, n_p, ci, pi, observed)
    proj = project(points[pi], cameras[ci])
    H = homography(proj[:n_p], proj[n_p : 2 * n_p] + 0.1)
    p = np.c_[proj[:n_p], np.ones(n_p)] @ H.T
    p = p[:, :2] / p[:, 2:]
    return huber(res) / len(res) + 0.05 * np.linalg.norm(p - proj[n_p : 2 * n_p]) + 0.01 * H[0, 0]


ARGUMENTS = (
    np.array(
        [
            [0.1, 0.2, -0.1, 0.1, 0.2, -4.0, 8.0, 0.01, 0.001],
            [-0.2, 0.1, 0.1, -0.3, 0.1, -4.5, 8.0, 0.02, -0.001],
        ]
    ),
    np.random.RandomState(3).randn(6, 3),
)


def check():
    sq = np.array([[0, 0], [1, 0], [1, 1], [0, 1.0]])
    assert np.allclose(homography(sq, sq), np.eye(3))
