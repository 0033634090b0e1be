"""EspalierSearchCV with the real scikit-learn, where it is installed."""

import importlib.util
import math
import unittest
import warnings

HERE = importlib.util.find_spec("sklearn") is not None
if HERE:
    import numpy
    import scipy.stats
    from sklearn.datasets import load_iris
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler
    from sklearn.svm import SVC

    from espalier.sklearn import EspalierSearchCV


@unittest.skipUnless(HERE, "scikit-learn is not here")
class SearchTest(unittest.TestCase):
    def setUp(self):
        self.data = load_iris(return_X_y=True)

    def test_values_of_every_kind_come_back_as_they_were(self):
        search = EspalierSearchCV(
            make_pipeline(StandardScaler(), SVC()),
            {"standardscaler": [StandardScaler(), MinMaxScaler(), "passthrough"], "svc__C": scipy.stats.loguniform(1e-2, 1e3),
             "svc__gamma": (1e-4, 1.0, "log"), "svc__degree": numpy.array([2, 3]), "svc__kernel": ["rbf", "poly"],
             "svc__class_weight": [None, {0: 2.0}]}, n_iter=12, random_state=0, cv=3)
        search.fit(*self.data)
        self.assertEqual(len(search.cv_results_["params"]), 12)
        self.assertGreater(search.best_score_, 0.9)
        self.assertEqual(search.predict(self.data[0]).shape, (150,))
        for params in search.cv_results_["params"]:
            self.assertIn(params["svc__degree"], (2, 3))
            self.assertIn(type(params["standardscaler"]), (StandardScaler, MinMaxScaler, str))
            self.assertIn(params["svc__class_weight"], (None, {0: 2.0}))
            self.assertTrue(1e-2 <= params["svc__C"] <= 1e3)

    def test_same_seed_same_candidates(self):
        def run(jobs):
            search = EspalierSearchCV(SVC(), {"C": (1e-2, 1e2, "log")}, n_iter=6, random_state=3, cv=2, n_jobs=jobs,
                                      algorithm="random")
            return [params["C"] for params in search.fit(*self.data).cv_results_["params"]]
        self.assertEqual(run(None), run(None))
        self.assertEqual(run(None), run(2))

    def test_a_resource_is_given_to_the_best(self):
        search = EspalierSearchCV(
            GradientBoostingClassifier(random_state=0), {"max_depth": (1, 4), "learning_rate": (0.01, 0.5, "log")}, n_iter=6,
            algorithm={"use": "sha", "iterations_min": 3, "iterations_max": 27}, resource="n_estimators", random_state=0, cv=2)
        search.fit(*self.data)
        given = [params["n_estimators"] for params in search.cv_results_["params"]]
        self.assertEqual(sorted(set(given)), [3, 9, 27])
        self.assertGreater(given.count(3), given.count(27))

    def test_candidates_that_fail_are_left_out(self):
        search = EspalierSearchCV(SVC(), {"C": [-1.0, 1.0, 2.0, -3.0]}, algorithm="grid", cv=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search.fit(*self.data)
            self.assertIn(search.best_params_["C"], (1.0, 2.0))
            with self.assertRaisesRegex(ValueError, "fits failed"):
                EspalierSearchCV(SVC(), {"C": [-1.0, -2.0]}, algorithm="grid", cv=2).fit(*self.data)

    def test_several_metrics(self):
        search = EspalierSearchCV(SVC(), {"C": (0.1, 10.0, "log")}, n_iter=3, cv=2, scoring=["accuracy", "f1_macro"],
                                  refit="f1_macro").fit(*self.data)
        self.assertEqual(search.best_score_, max(search.cv_results_["mean_test_f1_macro"]))
        with self.assertRaises(ValueError):
            EspalierSearchCV(SVC(), {"C": (0.1, 10.0, "log")}, n_iter=3, cv=2, scoring=["accuracy", "f1_macro"],
                             refit=False).fit(*self.data)

    def test_what_cannot_be_searched_is_named(self):
        for space, text in (({"C": scipy.stats.gamma(2)}, "C is a distribution 'gamma'"), ({"C": 3}, "C is 3"),
                            ({"nothing": (0.0, 1.0)}, "nothing")):
            with self.assertRaisesRegex((TypeError, ValueError), text):
                EspalierSearchCV(SVC(), space, n_iter=2, cv=2).fit(*self.data)
        with self.assertRaisesRegex(ValueError, "no parameter 'epochs'"):
            EspalierSearchCV(SVC(), {"C": (0.1, 1.0)}, resource="epochs").fit(*self.data)

    def test_normal_distributions(self):
        space = {"tol": scipy.stats.lognorm(1.0, scale=1e-3), "coef0": scipy.stats.norm(0.3, 0.1), "C": scipy.stats.loguniform(0.1, 10)}
        search = EspalierSearchCV(SVC(kernel="poly"), space, n_iter=12, cv=2, algorithm="random").fit(*self.data)
        for params in search.cv_results_["params"]:
            self.assertLessEqual(abs(params["coef0"] - 0.3), 0.4)
            self.assertLessEqual(abs(math.log(params["tol"] / 1e-3)), 4.0)
        self.assertGreater(len({params["tol"] for params in search.cv_results_["params"]}), 6)

    def test_it_nests(self):
        search = EspalierSearchCV(SVC(), {"C": (0.1, 10.0, "log")}, n_iter=2, cv=2)
        self.assertEqual(len(cross_val_score(search, *self.data, cv=2)), 2)

    def test_scikit_learn_checks_it(self):
        from sklearn.utils.estimator_checks import check_estimator
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_estimator(EspalierSearchCV(LogisticRegression(), {"C": (0.1, 1.0, "log")}, n_iter=2, cv=2))


if __name__ == "__main__":
    unittest.main()
